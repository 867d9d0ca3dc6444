namespace forge {}
