"""Many runs, many processes, many machines: sweeps, Ray, launches, estimates, the doctor."""
