"""The process table: runs, nodes, the share of each tenant."""
