"""The routes of the lab, a file per page. Each has `routes(lab)`, and computes in threads."""
