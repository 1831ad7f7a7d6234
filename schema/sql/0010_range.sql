-- Marks and ranges with the rank that made them.

CREATE VIEW v_range AS
    SELECT p.rank AS rank, p.pid AS pid, t.tid AS tid, r.start_ns, r.end_ns, r.end_ns - r.start_ns AS duration_ns,
           CASE r.op WHEN 1 THEN 'step' WHEN 2 THEN 'mark' WHEN 3 THEN 'range' WHEN 4 THEN 'NVTX range'
                     WHEN 5 THEN 'NVTX mark' END AS kind, -- enum lw_mark_op
           s.text AS name, r.value AS value
    FROM range r JOIN thread t ON t.id = r.thread_id JOIN process p ON p.id = t.process_id
    LEFT JOIN string s ON s.id = r.name_id;
