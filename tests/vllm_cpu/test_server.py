"""vLLM in a server of its own: a run, stage changes, weights in sync.

TRL's client and vLLM's server are the real ones, less the transport of the weights: TRL sends them
over NCCL, which needs a GPU (the last test). Here they go through a file.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests
from checks import assert_sampled_at, generations, mismatch, recorded, train_nano
from safetensors.torch import save_file
from trl.generation.vllm_client import VLLMClient

START_S = 240.0


class Server:
    """``vllm serve`` on a free port, as TRL's guide starts it."""

    def __init__(self, model: Path, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url, self.log = f"http://127.0.0.1:{port}", log
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
        command += ["--dtype", "float32", "--max-model-len", "512", "--enforce-eager"]
        command += ["--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"]
        command += ["--weight-transfer-config", '{"backend": "nccl"}']
        command += ["--worker-extension-cls", "cpu_worker.CPUWorker"]
        here = str(Path(__file__).parent)
        environment = {**os.environ, "VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": here}
        self.process = subprocess.Popen(
            command, env=environment, stdout=log.open("w"), stderr=subprocess.STDOUT
        )

    def wait(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if requests.get(f"{self.url}/health", timeout=5).ok:
                    return
            except requests.ConnectionError:
                time.sleep(0.5)
        raise RuntimeError(f"the vLLM server did not start:\n{self.log.read_text()[-3000:]}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """Starts a server for a model, or gives the one that runs already."""
    servers = {}

    def start(model: Path) -> Server:
        if model not in servers:
            servers[model] = Server(model, tmp_path_factory.mktemp("server") / "log.txt")
            servers[model].wait()
        return servers[model]

    yield start
    for server in servers.values():
        server.stop()


@pytest.fixture
def weights_by_file(monkeypatch, tmp_path):
    """In place of NCCL: the weights that TRL streams are written, and the server reads them."""

    def update(client, metadata, named_params):
        path = tmp_path / "weights.safetensors"
        weights = {name: value.contiguous() for name, value in named_params}
        assert list(weights) == [name for name, _, _ in metadata]
        save_file(weights, path)
        call = {"method": "load_weights_from", "args": [str(path)]}
        client._post(f"{client.base_url}/collective_rpc", json=call)

    monkeypatch.setattr(VLLMClient, "init_communicator", lambda client, device: None)
    monkeypatch.setattr(VLLMClient, "update_named_params", update)


def test_a_run_with_a_server_stays_in_sync(
    nano_changes, nano_model, serve, weights_by_file, tmp_path
):
    changes = {"backend": "vllm_server", "vllm_server_url": serve(nano_model).url}
    run = train_nano({**nano_changes, **changes, "learning_rate": 3e-3}, tmp_path, steps=8)
    assert run.state == "finished"
    assert len(mismatch(run)) == 4
    assert max(mismatch(run)) < 1e-3


def test_a_stage_changes_temperature_and_length_of_the_server(
    nano_changes, constant_model, logits, serve, weights_by_file, tmp_path
):
    changes = {"backend": "vllm_server", "vllm_server_url": serve(constant_model).url}
    stages = {"temperature_stages": "0:0.5,2:1.5", "length_stages": "0:64,2:96"}
    changes |= {**stages, "learning_rate": 1e-12, "num_generations": 16}
    run = train_nano({**nano_changes, **changes, "model": str(constant_model)}, tmp_path)
    cold, warm = generations(run)
    assert (set(cold["length"]), set(warm["length"])) == ({64}, {96})
    assert_sampled_at(cold, logits, 0.5)
    assert_sampled_at(warm, logits, 1.5)
    assert recorded(run, "temperature") == [0.5, 1.5]
    assert max(mismatch(run)) < 1e-4


def test_trl_sends_weights_to_a_server_from_a_gpu_only(nano_model, serve):
    client = VLLMClient(base_url=serve(nano_model).url)
    sampled = client.generate([[5, 6, 7]], n=2, max_tokens=4)
    assert [len(ids) for ids in sampled["completion_ids"]] == [4, 4]
    with pytest.raises(NotImplementedError, match="needs a CUDA device, got 'cpu'"):
        client.init_communicator(device="cpu")
