-- What GPUs did, and what NCCL did on them. Times of GPU work are the device's own, told in the host's CLOCK_MONOTONIC.

CREATE TABLE gpu(                -- a GPU that a process uses
    process_id INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    device INTEGER NOT NULL,     -- as CUDA numbers it in that process
    name_id INTEGER, pci_id INTEGER, -- strings: "NVIDIA H200", "0000:3b:00.0"
    memory_bytes INTEGER, n_multiprocessors INTEGER NOT NULL,
    clock_khz INTEGER,           -- highest of its multiprocessors; NULL = not known
    major INTEGER NOT NULL, minor INTEGER NOT NULL -- compute capability
) STRICT;

CREATE TABLE kernel(
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL, -- of the record, not of the launch
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    name_id INTEGER,             -- string, as the compiler mangled it
    device INTEGER NOT NULL, context INTEGER NOT NULL, stream INTEGER NOT NULL,
    correlation INTEGER NOT NULL, -- of its row in table launch, within the process
    graph INTEGER,               -- CUDA graph that it is a node of, or that it stands for
    flags INTEGER NOT NULL       -- enum lw_kernel_flag
) STRICT;

CREATE TABLE copy(               -- copies and memsets by a GPU
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_copy_op
    bytes INTEGER NOT NULL,
    device INTEGER NOT NULL, context INTEGER NOT NULL, stream INTEGER NOT NULL,
    correlation INTEGER NOT NULL, peer_device INTEGER NOT NULL,
    flags INTEGER NOT NULL       -- enum lw_kernel_flag
) STRICT;

CREATE TABLE gpu_sync(           -- a thread, or a stream, waited for a GPU
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_gpu_sync_op
    context INTEGER NOT NULL, stream INTEGER, event INTEGER, correlation INTEGER NOT NULL
) STRICT;

CREATE TABLE launch(             -- the host asked for GPU work
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_launch_op
    name_id INTEGER,             -- string: the CUDA function
    correlation INTEGER NOT NULL,
    tid INTEGER NOT NULL,        -- the thread that called
    made_for INTEGER NOT NULL,   -- enum lw_launch_for: 1 = for_serial is nccl_op.serial, 2 = batch.batch
    for_serial INTEGER NOT NULL,
    result INTEGER NOT NULL
) STRICT;

CREATE TABLE gpu_overhead(       -- time that CUPTI or the driver took for itself
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    name_id INTEGER
) STRICT;

CREATE TABLE nccl_op(            -- one operation of NCCL, enqueued to completed, or see its flags
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_nccl_op
    comm_key INTEGER NOT NULL,
    serial INTEGER NOT NULL,     -- within the process, from 1
    bytes INTEGER NOT NULL,      -- count x type size
    peer INTEGER NOT NULL,       -- root or peer in its communicator, -1 = none
    group_serial INTEGER,        -- calls of one group share it
    algorithm INTEGER NOT NULL,  -- enum lw_nccl_algorithm
    protocol INTEGER NOT NULL,   -- enum lw_nccl_protocol
    n_channels INTEGER NOT NULL, dtype INTEGER NOT NULL,
    flags INTEGER NOT NULL,      -- enum lw_nccl_flag
    source INTEGER NOT NULL      -- enum lw_nccl_source
) STRICT;

CREATE TABLE nccl_proxy(         -- what one channel moved to or from one peer for an operation
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_message_op
    serial INTEGER,              -- of its nccl_op; NULL = of another process or not known
    bytes INTEGER NOT NULL, peer INTEGER NOT NULL, channel INTEGER NOT NULL, n_steps INTEGER NOT NULL,
    gpu_wait_ns INTEGER NOT NULL, peer_wait_ns INTEGER NOT NULL, wire_ns INTEGER NOT NULL -- sums over its steps
) STRICT;

CREATE TABLE nccl_net(           -- which queue pair or socket carried it
    thread_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    op INTEGER NOT NULL,         -- enum lw_nccl_net_op: 1 queue pair, 2 socket
    serial INTEGER, bytes INTEGER NOT NULL,
    number INTEGER,              -- rdma_qp.number or socket.socket
    n INTEGER NOT NULL           -- work requests or calls
) STRICT;

-- Table device has GPUs too: kind 'gpu', number = as NVML counts them, on_name = PCI bus id, as in gpu.pci_id.
ALTER TABLE counter ADD COLUMN is_gauge INTEGER NOT NULL DEFAULT 0; -- 1: what is at the moment, it also falls

CREATE VIEW v_kernel AS          -- sums by rank and name
    SELECT p.rank AS rank, s.text AS name, count(*) AS n, sum(k.end_ns - k.start_ns) AS duration_ns
    FROM kernel k JOIN thread t ON t.id = k.thread_id JOIN process p ON p.id = t.process_id
    LEFT JOIN string s ON s.id = k.name_id GROUP BY p.id, k.name_id;

CREATE VIEW v_nccl_op AS
    SELECT p.rank AS rank, o.serial, o.start_ns, o.end_ns, o.end_ns - o.start_ns AS duration_ns, o.op, o.bytes,
           o.algorithm, o.protocol, o.n_channels, o.comm_key
    FROM nccl_op o JOIN thread t ON t.id = o.thread_id JOIN process p ON p.id = t.process_id;
