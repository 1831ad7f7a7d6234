-- A run: what one host saw of one traced job. Times are integer ns of the host's CLOCK_MONOTONIC.
-- Raw tables are written by the collector and the importers only, result tables by the analyzer only.

CREATE TABLE run(                -- one row
    id INTEGER PRIMARY KEY CHECK(id = 1),
    created_by TEXT NOT NULL,    -- program and version
    source TEXT NOT NULL,        -- 'trace', or the importer's name
    command TEXT NOT NULL,       -- what was recorded, '' when not known
    created_realtime_ns INTEGER NOT NULL,
    closed INTEGER NOT NULL,     -- 1: closed in order, indexes built; 0: still growing, or its collector died
    exit_code INTEGER            -- of the recorded command, NULL when not known
) STRICT;

CREATE TABLE string(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;

CREATE TABLE host(id INTEGER PRIMARY KEY, name TEXT NOT NULL, boot_id TEXT NOT NULL, clock TEXT NOT NULL) STRICT;

CREATE TABLE process(
    id INTEGER PRIMARY KEY,
    host_id INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    start_key INTEGER NOT NULL DEFAULT 0,  -- field 22 of /proc/PID/stat: tells a reused pid; 0 = not known
    ppid INTEGER NOT NULL,
    rank INTEGER, size INTEGER, local_rank INTEGER, local_size INTEGER,  -- NULL = not known
    framework INTEGER NOT NULL,  -- enum lw_framework
    transport INTEGER NOT NULL,  -- enum lw_transport
    command_id INTEGER,          -- string
    start_ns INTEGER NOT NULL,   -- first record
    end_ns INTEGER,              -- last sign of life so far
    ended TEXT                   -- 'exit', 'died'; NULL = still running when it was last looked at
) STRICT;

CREATE TABLE thread(
    id INTEGER PRIMARY KEY,
    process_id INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    serial INTEGER NOT NULL,
    role INTEGER NOT NULL,       -- enum lw_thread_role
    name_id INTEGER,
    start_ns INTEGER NOT NULL DEFAULT 0, -- its ring was made
    n_pushed INTEGER NOT NULL,   -- n_pushed = n_stored + n_lost, so far and at the end
    n_stored INTEGER NOT NULL,
    n_lost INTEGER NOT NULL,
    position INTEGER NOT NULL DEFAULT 0  -- records taken from its ring: a new collector goes on from here
) STRICT;

CREATE TABLE comm(
    id INTEGER PRIMARY KEY,
    process_id INTEGER NOT NULL,
    key INTEGER NOT NULL,        -- the same on all its ranks
    parent_key INTEGER,
    size INTEGER NOT NULL, rank INTEGER NOT NULL,
    serial INTEGER NOT NULL,
    how INTEGER NOT NULL,        -- enum lw_comm_how
    transport INTEGER NOT NULL,  -- enum lw_transport
    at_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE collective(         -- one transport-level collective of one rank
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_coll
    comm_key INTEGER NOT NULL,
    sent_bytes INTEGER NOT NULL, received_bytes INTEGER NOT NULL,
    root INTEGER NOT NULL, flags INTEGER NOT NULL, transport INTEGER NOT NULL
) STRICT;

CREATE TABLE message(
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_message_op
    comm_key INTEGER NOT NULL, bytes INTEGER NOT NULL, peer INTEGER NOT NULL, tag INTEGER NOT NULL, flags INTEGER NOT NULL
) STRICT;

CREATE TABLE ready(              -- a gradient was handed to the framework
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    at_ns INTEGER NOT NULL, object INTEGER NOT NULL, name_id INTEGER, bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE cycle(              -- one coordination round
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_cycle_op
    in_bits INTEGER NOT NULL, out_bits INTEGER NOT NULL, n_words INTEGER NOT NULL,
    n_unchanged INTEGER NOT NULL, unchanged_ns INTEGER NOT NULL, unchanged_span_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE batch(              -- one executed response of the framework: the tensors one operation carried
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_coll
    batch INTEGER NOT NULL,      -- serial within the process
    n_tensors INTEGER NOT NULL, bytes INTEGER NOT NULL,
    fusion_bytes INTEGER,        -- threshold in force, NULL = not known
    process_set INTEGER NOT NULL, dtype INTEGER NOT NULL, flags INTEGER NOT NULL, framework INTEGER NOT NULL
) STRICT;

CREATE TABLE batch_tensor(
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    batch INTEGER NOT NULL, position INTEGER NOT NULL,
    name_id INTEGER, object INTEGER NOT NULL, bytes INTEGER NOT NULL, dtype INTEGER NOT NULL
) STRICT;

CREATE TABLE setting(
    process_id INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    setting INTEGER NOT NULL,    -- enum lw_setting; its unit is in its name
    value REAL NOT NULL, source INTEGER NOT NULL  -- enum lw_setting_source
) STRICT;

CREATE TABLE wait(               -- the training thread had nothing left to compute
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, op INTEGER NOT NULL
) STRICT;

CREATE TABLE socket(
    id INTEGER PRIMARY KEY,
    process_id INTEGER NOT NULL, socket INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    local_address TEXT NOT NULL, local_port INTEGER NOT NULL,
    peer_address TEXT NOT NULL, peer_port INTEGER NOT NULL
) STRICT;

CREATE TABLE socket_sample(
    process_id INTEGER NOT NULL, socket INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    why INTEGER NOT NULL,        -- enum lw_sample_why
    sent_bytes INTEGER NOT NULL, received_bytes INTEGER NOT NULL, n_sends INTEGER NOT NULL, n_receives INTEGER NOT NULL
) STRICT;

CREATE TABLE tcp_sample(
    process_id INTEGER NOT NULL, socket INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    why INTEGER NOT NULL,
    rtt_ns INTEGER NOT NULL, acked_bytes INTEGER NOT NULL, received_bytes INTEGER NOT NULL,
    delivery_bytes_per_s INTEGER NOT NULL, n_retransmits INTEGER NOT NULL, congestion_window_segments INTEGER NOT NULL
) STRICT;

CREATE TABLE gloo_message(
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    socket INTEGER NOT NULL, opcode INTEGER NOT NULL, slot INTEGER NOT NULL, bytes INTEGER NOT NULL, is_sent INTEGER NOT NULL
) STRICT;

CREATE TABLE range(              -- marks of the user's, NVTX ranges, and activities of imported timelines
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_mark_op
    name_id INTEGER, value INTEGER NOT NULL
) STRICT;

CREATE TABLE clock_sample(host_id INTEGER NOT NULL, monotonic_ns INTEGER NOT NULL, realtime_ns INTEGER NOT NULL) STRICT;

CREATE TABLE hook(
    process_id INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    name_id INTEGER, status INTEGER NOT NULL, n_slots INTEGER NOT NULL, detail_id INTEGER
) STRICT;

CREATE TABLE loss(               -- everything that is known to be missing
    process_id INTEGER, thread_id INTEGER,
    reason INTEGER NOT NULL,     -- enum lw_loss_reason
    n INTEGER NOT NULL, detail TEXT NOT NULL
) STRICT;

-- ---- results: written by the analyzer, rebuilt at will ------------------------------------------

CREATE TABLE step(
    rank INTEGER NOT NULL, step INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    excluded TEXT,               -- NULL = counted; else why not ('warm-up', 'set-up', ...)
    PRIMARY KEY(rank, step)
) STRICT;

CREATE TABLE phase(              -- one batch on one rank; unions over its tensors, fused work counted once
    rank INTEGER NOT NULL, step INTEGER NOT NULL, batch INTEGER NOT NULL,
    op INTEGER NOT NULL, bytes INTEGER NOT NULL, n_tensors INTEGER NOT NULL,
    first_ready_ns INTEGER, last_ready_ns INTEGER,     -- over all ranks; NULL = not known
    agreed_ns INTEGER, start_ns INTEGER NOT NULL, wire_start_ns INTEGER, wire_end_ns INTEGER, end_ns INTEGER NOT NULL,
    last_rank INTEGER,           -- rank whose tensor came last; NULL = not known or within the error
    PRIMARY KEY(rank, batch)
) STRICT;

CREATE TABLE overlap(
    rank INTEGER NOT NULL, step INTEGER NOT NULL,
    compute_ns INTEGER, comm_ns INTEGER NOT NULL, hidden_ns INTEGER, exposed_ns INTEGER, idle_ns INTEGER,
    negotiate_ns INTEGER, wait_ns INTEGER, allreduce_ns INTEGER NOT NULL, misc_ns INTEGER NOT NULL,
    PRIMARY KEY(rank, step)
) STRICT;

CREATE TABLE fit(name TEXT PRIMARY KEY, value REAL, low REAL, high REAL, how TEXT NOT NULL, note TEXT NOT NULL) STRICT;

CREATE TABLE prediction(model TEXT NOT NULL, setting TEXT NOT NULL, step_ns REAL, low_ns REAL, high_ns REAL, note TEXT NOT NULL) STRICT;

CREATE TABLE advice(id TEXT NOT NULL, position INTEGER NOT NULL, title TEXT NOT NULL, why TEXT NOT NULL, setting TEXT NOT NULL,
    step_ns REAL, low_ns REAL, high_ns REAL, gain_frac REAL) STRICT;

CREATE TABLE diag(stage TEXT NOT NULL, kind TEXT NOT NULL, n INTEGER NOT NULL, text TEXT NOT NULL) STRICT;

-- ---- what people ask first ------------------------------------------------------------------------

CREATE VIEW v_batch AS
    SELECT p.rank AS rank, b.batch AS batch, b.start_ns, b.end_ns, b.end_ns - b.start_ns AS duration_ns, b.n_tensors, b.bytes, b.op
    FROM batch b JOIN thread t ON t.id = b.thread_id JOIN process p ON p.id = t.process_id;

CREATE VIEW v_tensor AS
    SELECT p.rank AS rank, bt.batch AS batch, bt.position, s.text AS name, bt.bytes
    FROM batch_tensor bt JOIN thread t ON t.id = bt.thread_id JOIN process p ON p.id = t.process_id LEFT JOIN string s ON s.id = bt.name_id;

CREATE VIEW v_socket AS
    SELECT p.rank AS rank, k.local_address, k.local_port, k.peer_address, k.peer_port,
           max(x.sent_bytes) AS sent_bytes, max(x.received_bytes) AS received_bytes
    FROM socket k JOIN process p ON p.id = k.process_id
    LEFT JOIN socket_sample x ON x.process_id = k.process_id AND x.socket = k.socket GROUP BY k.id;

CREATE VIEW v_rank AS
    SELECT p.rank AS rank, count(*) AS n_steps, avg(s.end_ns - s.start_ns) AS step_ns
    FROM process p JOIN step s ON s.rank = p.rank WHERE s.excluded IS NULL GROUP BY p.rank;
