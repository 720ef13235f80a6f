"""Arms of a benchmark: processes that compute the same work in different ways."""
