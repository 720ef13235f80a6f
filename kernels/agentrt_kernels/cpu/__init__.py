"""The kernel set for CPUs: C++, compiled on the machine that runs it. Importing builds nothing."""
