"""What each algorithm would show: the candidates as programs, and the signatures they predict."""
