"""Several processes on one run: who they are, what each works on, and how their gradients become one."""
