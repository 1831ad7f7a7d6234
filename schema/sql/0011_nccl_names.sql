-- Operations of NCCL in words: what they are, how they ran, who told.

DROP VIEW v_nccl_op;
CREATE VIEW v_nccl_op AS
    SELECT p.rank AS rank, o.serial, o.start_ns, o.end_ns, o.end_ns - o.start_ns AS duration_ns, o.op,
           CASE o.op WHEN 1 THEN 'allreduce' WHEN 2 THEN 'allgather' WHEN 3 THEN 'broadcast' WHEN 4 THEN 'alltoall'
                     WHEN 5 THEN 'reducescatter' WHEN 6 THEN 'reduce' WHEN 7 THEN 'gather' WHEN 8 THEN 'scatter'
                     WHEN 9 THEN 'send' WHEN 10 THEN 'recv' WHEN 11 THEN 'other' WHEN 12 THEN 'barrier'
                     END AS op_name, -- enum lw_nccl_op
           CASE WHEN o.flags & 32 THEN NULL ELSE o.bytes END AS bytes, -- NULL: not known
           o.algorithm,
           CASE o.algorithm WHEN 1 THEN 'TREE' WHEN 2 THEN 'RING' WHEN 3 THEN 'COLLNET_DIRECT' WHEN 4 THEN 'COLLNET_CHAIN'
                            WHEN 5 THEN 'NVLS' WHEN 6 THEN 'NVLS_TREE' WHEN 7 THEN 'PAT'
                            END AS algorithm_name, -- enum lw_nccl_algorithm, NULL: not known
           o.protocol,
           CASE o.protocol WHEN 1 THEN 'LL' WHEN 2 THEN 'LL128' WHEN 3 THEN 'SIMPLE'
                           END AS protocol_name, -- enum lw_nccl_protocol, NULL: not known
           o.n_channels, o.comm_key,
           CASE o.source WHEN 0 THEN 'import' WHEN 1 THEN 'preload' WHEN 2 THEN 'plugin' WHEN 3 THEN 'nvtx'
                         END AS told_by -- enum lw_nccl_source
    FROM nccl_op o JOIN thread t ON t.id = o.thread_id JOIN process p ON p.id = t.process_id;
