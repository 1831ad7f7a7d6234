-- Parameters of torch DDP and when each gradient was complete: what buckets of other sizes would hold.

CREATE TABLE parameter(          -- one gradient that a reducer exchanges
    process_id INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    reducer INTEGER NOT NULL,    -- k-th of the process, from 0
    position INTEGER NOT NULL,   -- among the parameters of its reducer, from 0
    bytes INTEGER NOT NULL, dtype INTEGER NOT NULL  -- enum lw_dtype
) STRICT;

CREATE TABLE gradient(           -- the gradient of one parameter was complete, once a backward pass
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    reducer INTEGER NOT NULL, position INTEGER NOT NULL
) STRICT;
