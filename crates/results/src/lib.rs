//! Run directories: Parquet tables, statistics, published tables.
