-- What the kernel counts while a job runs: devices, their counters, and the TCP connections of the host.

CREATE TABLE device(             -- as long as it has one name; a renamed one is another row from then on
    id INTEGER PRIMARY KEY,
    host_id INTEGER NOT NULL,
    kind TEXT NOT NULL,          -- 'nic', 'rdma_port', 'softnet' (what the host's CPUs took from their NICs)
    name TEXT NOT NULL,          -- 'eth0'; 'mlx5_0/1' = port 1 of mlx5_0
    number INTEGER,              -- interface index, port number; NULL = none
    namespace_key INTEGER,       -- inode of its network namespace; NULL = not known, or of the whole host
    on_name TEXT,                -- interface that it lies on (VLAN, RoCE port), NULL = none or not known
    mtu_bytes INTEGER,           -- these as last seen; NULL = not known
    speed_bytes_per_s INTEGER,
    addresses TEXT NOT NULL,     -- IP addresses with a space between, '' = none
    driver TEXT,
    is_loopback INTEGER NOT NULL,
    first_ns INTEGER NOT NULL,
    gone_ns INTEGER              -- found missing or renamed then; NULL = was there to the end
) STRICT;

CREATE TABLE counter(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT NOT NULL) STRICT;

-- A row where a value differs from the one before it (then also the last unchanged reading before it), the
-- first reading and the last. Between two rows without one in between nothing changed that was read.
CREATE TABLE counter_sample(
    device_id INTEGER NOT NULL, counter_id INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    value INTEGER NOT NULL       -- as read, in the counter's unit; goes on upwards over wraps and resets
) STRICT;

CREATE TABLE counter_break(      -- a counter fell: what was counted around then is not certain
    device_id INTEGER NOT NULL, counter_id INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,      -- the reading that was lower than the one before it
    kind TEXT NOT NULL           -- 'wrap': taken as passed its highest value; 'reset': taken as begun anew
) STRICT;

CREATE TABLE tcp_connection(     -- one end of a connection; both ends of one within a host are two rows
    id INTEGER PRIMARY KEY,
    host_id INTEGER NOT NULL,
    process_id INTEGER,          -- recorded process that has it open; NULL = none, or too short to be asked
    inode_key INTEGER NOT NULL,  -- of its socket; 0 = not known
    namespace_key INTEGER NOT NULL,
    local_address TEXT NOT NULL, local_port INTEGER NOT NULL,
    peer_address TEXT NOT NULL, peer_port INTEGER NOT NULL,
    device_id INTEGER,           -- with the local address (the loopback when the peer is in here too); NULL = not known
    first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL, -- seen
    is_ended INTEGER NOT NULL    -- 1: the last sample is the kernel's account at its end
) STRICT;

CREATE TABLE tcp_info_sample(    -- NULL where this kernel does not tell; rows as in counter_sample
    connection_id INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    rtt_ns INTEGER, min_rtt_ns INTEGER,
    sent_bytes INTEGER,          -- payload handed to IP, retransmitted bytes too
    acked_bytes INTEGER, received_bytes INTEGER, -- the kernel counts a SYN or FIN as one more
    retransmitted_bytes INTEGER, n_retransmits INTEGER,
    n_segments_out INTEGER, n_segments_in INTEGER,
    delivery_bytes_per_s INTEGER,
    busy_ns INTEGER,             -- something was sent and not acked
    rwnd_limited_ns INTEGER,     -- of that: the peer's window was full
    sndbuf_limited_ns INTEGER,   -- of that: the send buffer was full
    congestion_window_segments INTEGER,
    unsent_bytes INTEGER
) STRICT;

CREATE TABLE sampler(            -- how often each looked, and what that cost
    name TEXT NOT NULL PRIMARY KEY,
    period_ns INTEGER NOT NULL,  -- asked for
    actual_period_ns INTEGER NOT NULL, -- at the end; longer where it would have cost too much
    n_samples INTEGER NOT NULL, n_late INTEGER NOT NULL, -- late: more than half a period
    n_failed INTEGER NOT NULL,   -- readings that failed
    cpu_ns INTEGER NOT NULL,     -- all of it, without storing
    longest_ns INTEGER NOT NULL  -- one look
) STRICT;

CREATE VIEW v_device AS          -- bytes that went through while it was watched
    SELECT d.id AS device_id, d.kind, d.name, d.on_name, d.namespace_key, d.speed_bytes_per_s, d.mtu_bytes, d.driver, d.addresses,
           max(CASE c.name WHEN 'rx_bytes' THEN x.moved END) AS rx_bytes,
           max(CASE c.name WHEN 'tx_bytes' THEN x.moved END) AS tx_bytes,
           coalesce(sum(x.n), 0) AS n_samples, d.first_ns, d.gone_ns
    FROM device d LEFT JOIN (SELECT device_id, counter_id, max(value) - min(value) AS moved, count(*) AS n
                             FROM counter_sample GROUP BY device_id, counter_id) x ON x.device_id = d.id
    LEFT JOIN counter c ON c.id = x.counter_id GROUP BY d.id;

CREATE VIEW v_tcp AS             -- each connection with its rank, its device, the kernel's last account and the hook's
    SELECT c.id AS connection_id, p.rank, c.process_id, c.local_address, c.local_port, c.peer_address, c.peer_port, d.name AS device,
           x.sent_bytes, x.acked_bytes, x.received_bytes, x.retransmitted_bytes, x.n_retransmits, x.rtt_ns, x.delivery_bytes_per_s,
           x.busy_ns, x.rwnd_limited_ns, x.sndbuf_limited_ns, k.socket,
           (SELECT max(y.sent_bytes) FROM socket_sample y WHERE y.process_id = k.process_id AND y.socket = k.socket) AS hook_sent_bytes,
           (SELECT max(y.received_bytes) FROM socket_sample y WHERE y.process_id = k.process_id AND y.socket = k.socket) AS hook_received_bytes
    FROM tcp_connection c
    LEFT JOIN (SELECT *, max(at_ns) FROM tcp_info_sample GROUP BY connection_id) x ON x.connection_id = c.id
    LEFT JOIN device d ON d.id = c.device_id
    LEFT JOIN (SELECT *, lag(at_ns) OVER again AS before_ns, lead(at_ns) OVER again AS next_ns FROM socket
               WINDOW again AS (PARTITION BY process_id, local_address, local_port, peer_address, peer_port ORDER BY at_ns, id)) k
        ON k.local_address = c.local_address AND k.local_port = c.local_port
        AND k.peer_address = c.peer_address AND k.peer_port = c.peer_port
        AND (k.before_ns IS NULL OR c.first_ns >= k.at_ns) AND (k.next_ns IS NULL OR c.first_ns < k.next_ns) -- ports are used again
        AND (c.process_id IS NULL OR k.process_id = c.process_id)
    LEFT JOIN process p ON p.id = coalesce(c.process_id, k.process_id);
