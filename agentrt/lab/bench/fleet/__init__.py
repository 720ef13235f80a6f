"""Programs over replicas of a stock server: our runtime beside the strongest client."""
