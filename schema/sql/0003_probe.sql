CREATE TABLE probe(              -- one collective of `record --probe`: sent by the tracer, not by the job
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_coll
    bytes INTEGER NOT NULL,      -- payload of every rank
    number INTEGER NOT NULL,     -- k-th of the probe, from 0, the same on all ranks
    burst INTEGER NOT NULL,      -- operations of one burst follow each other at once
    position INTEGER NOT NULL,   -- in its burst, from 0
    transport INTEGER NOT NULL   -- enum lw_transport
) STRICT;

CREATE VIEW v_probe AS           -- as one rank sees it; from the last rank's start to the last end is the time of service
    SELECT p.rank AS rank, x.number, x.burst, x.position, x.bytes, x.start_ns, x.end_ns, x.end_ns - x.start_ns AS duration_ns
    FROM probe x JOIN thread t ON t.id = x.thread_id JOIN process p ON p.id = t.process_id;
