-- Packets as libpcap saw them, headers only: who sent how much to whom, in bins of one millisecond. What is not the
-- job's (live) is in bins of one second, and where little was moved in them only a part of the rest.

CREATE TABLE capture(            -- one capture of one device, or one imported file
    id INTEGER PRIMARY KEY,
    host_id INTEGER NOT NULL,
    device TEXT NOT NULL,        -- network device, 'any', or the file's name
    filter TEXT NOT NULL,        -- the last expression in force, '' = none
    source TEXT NOT NULL,        -- 'live', 'file'
    link_type TEXT NOT NULL,     -- as libpcap calls it
    snap_bytes INTEGER NOT NULL, -- of each packet that were kept
    start_ns INTEGER NOT NULL, end_ns INTEGER, -- NULL = it still ran when this was written
    n_received INTEGER NOT NULL, -- packets that were read
    n_dropped INTEGER NOT NULL,  -- packets that the kernel had no room for (on lo each counts twice)
    n_cut INTEGER NOT NULL,      -- packets with more headers than were kept: in no flow
    n_bad INTEGER NOT NULL,      -- packets whose headers contradict themselves: in no flow
    n_other INTEGER NOT NULL,    -- packets that are not IP: in no flow
    n_elsewhere INTEGER NOT NULL, -- packets of a flow that is counted at another interface
    clock_error_ns INTEGER NOT NULL, -- how far times here may be off the clock of this host's other rows
    problem TEXT                 -- why it ended early or never began; NULL = nothing
) STRICT;

CREATE TABLE flow(               -- one direction between two ends
    id INTEGER PRIMARY KEY,
    capture_id INTEGER NOT NULL,
    protocol TEXT NOT NULL,      -- 'tcp', 'udp', 'roce', else its number; of an is_other flow '' = the rest
    source_address TEXT NOT NULL, source_port INTEGER NOT NULL,
    destination_address TEXT NOT NULL, destination_port INTEGER NOT NULL,
    destination_qp INTEGER,      -- of RoCE
    process_id INTEGER,          -- of this run, whose traffic it is; NULL = nobody's or not known
    is_sent INTEGER,             -- 1: process_id sends it; 0: receives it
    peer_process_id INTEGER,     -- of this run, at the other end, when both are on this host
    is_other INTEGER NOT NULL,   -- 1: the rest of a protocol: flows of others that moved little, or that there was no room for
    is_fragment INTEGER NOT NULL, -- 1: later fragments, which have no ports
    segment_bytes INTEGER,       -- payload of a full segment; NULL = not known, then merged packets count as one
    missing_bytes INTEGER NOT NULL, -- of the TCP stream, never seen here: sent before or past this capture, or dropped
    n_elsewhere INTEGER NOT NULL -- packets seen at other interfaces too, not counted again
) STRICT;

CREATE TABLE packet_bin(         -- one flow in one millisecond, one of others in one second; add up rows of the same bin
    flow_id INTEGER NOT NULL,
    bin_ns INTEGER NOT NULL,     -- start of the millisecond, or of the second
    n_frames INTEGER NOT NULL, frame_bytes INTEGER NOT NULL, -- as the host sees them: merged by GSO and GRO; with Ethernet header
    n_packets INTEGER NOT NULL, wire_bytes INTEGER NOT NULL, -- as on the wire: merged ones divided by segment_bytes, an estimate
    payload_bytes INTEGER NOT NULL, -- of TCP, UDP or RoCE, whatever was sent twice counts twice
    n_retransmitted INTEGER NOT NULL, retransmitted_bytes INTEGER NOT NULL, -- packets and payload sent again
    repeated_bytes INTEGER NOT NULL, -- payload that was seen before: payload - repeated + flow.missing is what the sockets moved
    n_out_of_order INTEGER NOT NULL, -- packets that others overtook
    n_psn_gaps INTEGER NOT NULL, -- jumps of the RoCE packet sequence number: packets lost before this host saw them
    n_naks INTEGER NOT NULL,     -- RoCE acknowledgements that refuse
    n_ce INTEGER NOT NULL,       -- packets marked by the network: congestion experienced
    first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL -- of its packets; last_ns beyond the bin: bins were joined in a hurry
) STRICT;

CREATE TABLE flow_opcode(        -- RoCE packets of a flow by opcode
    flow_id INTEGER NOT NULL,
    opcode INTEGER NOT NULL,     -- of the BTH: 129 = congestion notification
    n_packets INTEGER NOT NULL, payload_bytes INTEGER NOT NULL,
    PRIMARY KEY(flow_id, opcode)
) STRICT;

CREATE TABLE capture_loss(       -- an interval in which the capture is incomplete
    capture_id INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    n INTEGER NOT NULL           -- packets; 0 = not known how many
) STRICT;

CREATE VIEW v_flow AS
    SELECT f.id AS flow_id, p.rank AS rank, f.is_sent, q.rank AS peer_rank, f.protocol, f.source_address, f.source_port, f.destination_address,
           f.destination_port, f.destination_qp, f.is_other, sum(b.n_packets) AS n_packets, sum(b.wire_bytes) AS wire_bytes,
           sum(b.frame_bytes) AS frame_bytes, sum(b.payload_bytes) AS payload_bytes,
           sum(b.payload_bytes) - sum(b.repeated_bytes) + f.missing_bytes AS stream_bytes,
           sum(b.n_retransmitted) AS n_retransmitted, sum(b.retransmitted_bytes) AS retransmitted_bytes,
           sum(b.n_out_of_order) AS n_out_of_order, sum(b.n_psn_gaps) AS n_psn_gaps, f.missing_bytes,
           min(b.first_ns) AS first_ns, max(b.last_ns) AS last_ns
    FROM flow f LEFT JOIN packet_bin b ON b.flow_id = f.id LEFT JOIN process p ON p.id = f.process_id
    LEFT JOIN process q ON q.id = f.peer_process_id GROUP BY f.id;
