CREATE TABLE summary(            -- the figures that reports and screens begin with; rebuilt at will
    rank INTEGER,                -- NULL: of the whole run
    name TEXT NOT NULL,          -- its unit is in its name
    value REAL, low REAL, high REAL, -- 95 %; NULL = not known, then text says why
    how TEXT NOT NULL,           -- measured, fitted, predicted, assumed
    text TEXT NOT NULL           -- of a name without a figure what it says
) STRICT;
