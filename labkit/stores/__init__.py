"""What workers share: stores, each turned into single steps over numbered states."""
