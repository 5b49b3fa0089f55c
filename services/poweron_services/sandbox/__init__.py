"""What `chaos` and `bench` share: servers and child processes of one run, apart from the user's, gone in the end."""
