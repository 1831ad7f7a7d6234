-- RDMA verbs as the job used them (libibverbs): ports, queue pairs, work requests, registered memory.

CREATE TABLE rdma_port(          -- an address that queue pairs of a process are at
    process_id INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    port INTEGER NOT NULL,       -- k-th of the process, from 1
    device_id INTEGER,           -- name in table string, as in /sys/class/infiniband
    number INTEGER NOT NULL,     -- of the port on its device, from 1; 0 = not known yet
    gid_index INTEGER NOT NULL,
    gid TEXT,                    -- an IPv4 address mapped into it (RoCE) as such; NULL = not known
    lid INTEGER NOT NULL         -- 0 = none (RoCE)
) STRICT;

CREATE TABLE rdma_qp(            -- what became of a queue pair; the last row with a peer says who that is
    process_id INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_rdma_qp_op: 1 seen, 2 connected, 3 ended
    qp INTEGER NOT NULL,         -- k-th of the process, from 1: numbers on the wire are used again
    number INTEGER NOT NULL,     -- on the wire
    type INTEGER NOT NULL,       -- enum ibv_qp_type (2 RC, 3 UC, 4 UD, ...); 0 = not known
    flags INTEGER NOT NULL,      -- enum lw_rdma_qp_flag; connected: flags >> 4 & 7 = m, packets of at most 128 << m bytes (0 = not known)
    port INTEGER,                -- of rdma_port
    peer_number INTEGER,         -- the peer's queue pair on the wire; NULL = none or not known
    peer_gid TEXT, peer_lid INTEGER NOT NULL,
    n_unused_receives INTEGER NOT NULL -- ended: receives that were posted and never filled
) STRICT;

CREATE TABLE rdma_work(          -- one work request, from the call that posted it to the poll that returned it
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_rdma_op
    qp INTEGER,                  -- of rdma_qp, NULL = not known
    peer_number INTEGER,         -- where each request names its own peer (UD)
    bytes INTEGER NOT NULL, n_sge INTEGER NOT NULL,
    status INTEGER,              -- enum ibv_wc_status, 0 = success; NULL = no completion was seen
    flags INTEGER NOT NULL       -- enum lw_rdma_flag
) STRICT;

CREATE TABLE rdma_memory(        -- memory registered for RDMA, at most one row in 100 ms
    process_id INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    n_registered INTEGER NOT NULL, registered_bytes INTEGER NOT NULL,     -- at that time
    n_registrations INTEGER NOT NULL, n_deregistrations INTEGER NOT NULL, -- so far
    n_dmabufs INTEGER NOT NULL,  -- of these registrations: memory of another device
    register_ns INTEGER NOT NULL -- time spent in registrations so far
) STRICT;

CREATE VIEW v_rdma_qp AS         -- a queue pair with the address that it was at last connected from and to
    SELECT p.rank AS rank, q.process_id, q.qp, q.number, max(q.type) AS type, s.text AS device, o.number AS port, o.gid AS gid,
           c.peer_number AS peer_qp, c.peer_gid AS peer_gid, max(q.flags & 1) AS is_srq,
           min(q.at_ns) AS start_ns, max(iif(q.op = 3, q.at_ns, NULL)) AS end_ns
    FROM rdma_qp q JOIN process p ON p.id = q.process_id
    LEFT JOIN rdma_qp c ON c.process_id = q.process_id AND c.qp = q.qp AND c.op = 2
         AND c.at_ns = (SELECT max(at_ns) FROM rdma_qp x WHERE x.process_id = q.process_id AND x.qp = q.qp AND x.op = 2)
    LEFT JOIN rdma_port o ON o.process_id = q.process_id AND o.port = coalesce(c.port, q.port)
    LEFT JOIN string s ON s.id = o.device_id GROUP BY q.process_id, q.qp;

CREATE VIEW v_rdma_work AS       -- sums by queue pair and kind of request
    SELECT p.rank AS rank, t.process_id, w.qp, w.op, count(*) AS n, sum(w.bytes) AS bytes,
           sum(coalesce(w.status, 0) <> 0) AS n_failed, sum(w.status IS NULL) AS n_unfinished,
           avg(iif(w.flags & 32, NULL, w.end_ns - w.start_ns)) AS duration_ns
    FROM rdma_work w JOIN thread t ON t.id = w.thread_id JOIN process p ON p.id = t.process_id
    GROUP BY t.process_id, w.qp, w.op;
