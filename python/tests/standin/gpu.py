"""GPUs of the stand-in CUDA driver (crates/runtime/standin-driver): their memory, streams and graphs.

The driver checks every access, runs work only when something waits for it, and interprets the kernels. It
takes the place of libcuda for this process, so these tests have one of their own.
"""

import contextlib
import ctypes
import os

import pytest

if "OCTILE_STANDIN_DRIVER" not in os.environ:
    pytest.skip("there is no stand-in driver: cargo xtask test-torch, test-python", allow_module_level=True)

os.environ["OCTILE_STANDIN_GPUS"] = "NVIDIA H200,9.0,132;NVIDIA H200,9.0,132;NVIDIA A100,8.0,108"
_driver = ctypes.CDLL(os.environ["OCTILE_STANDIN_DRIVER"])


def _call(name, *arguments):
    assert getattr(_driver, name)(*arguments) == 0, name


def current_context():
    """The CUDA context of this thread."""
    context = ctypes.c_void_p()
    _call("cuCtxGetCurrent", ctypes.byref(context))
    return context.value


def faults():
    """Runs all queued work; returns what was undefined in it, and in the calls, since the last time."""
    text = ctypes.create_string_buffer(1 << 16)
    size = _driver.octile_standin_faults(text, ctypes.c_size_t(len(text)))
    return text.raw[:size].decode().splitlines()


class Gpu:
    """A GPU with its current stream."""

    def __init__(self, index):
        self.index = index
        self.stream, self._allocator = self.new_stream(), self.new_stream()
        self._captured = None

    def new_stream(self):
        context = ctypes.c_void_p()
        _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.index)
        before = current_context()
        _call("cuCtxSetCurrent", context)
        stream = ctypes.c_void_p()
        _call("cuStreamCreate", ctypes.byref(stream), 0)
        _call("cuCtxSetCurrent", ctypes.c_void_p(before))
        return stream.value

    def allocate(self, size):
        address = ctypes.c_uint64()
        stream = ctypes.c_void_p(self._allocator)
        _call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(max(size, 1)), stream)
        return address.value

    def free(self, address):
        """Frees memory in the order of the stream, as allocators of frameworks reuse it; what a graph uses is
        kept for it."""
        if self._captured is None:
            _call("cuMemFreeAsync", ctypes.c_uint64(address), ctypes.c_void_p(self.stream))
        else:
            self._captured.append(address)

    @property
    def is_capturing(self):
        return self._captured is not None

    def write(self, address, data):
        """Queues a copy of bytes."""
        size = ctypes.c_size_t(len(data))
        _call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), data, size, ctypes.c_void_p(self.stream))

    def read(self, address, size):
        """Waits for the stream and returns bytes."""
        data = ctypes.create_string_buffer(max(size, 1))
        stream = ctypes.c_void_p(self.stream)
        _call("cuMemcpyDtoHAsync_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(size), stream)
        return data.raw[:size]

    @contextlib.contextmanager
    def captured(self):
        """Captures the work on the current stream; the result replays it once it was left."""
        stream, graph, executable = ctypes.c_void_p(self.stream), ctypes.c_void_p(), ctypes.c_void_p()
        _call("cuStreamBeginCapture_v2", stream, 0)
        self._captured = []
        try:
            yield lambda: _call("cuGraphLaunch", executable, ctypes.c_void_p(self.stream))
        finally:
            self._captured = None
            _call("cuStreamEndCapture", stream, ctypes.byref(graph))
        _call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))


@pytest.fixture(autouse=True)
def sound():
    """Each test must leave the driver without a fault, and this thread's context as it was."""
    before = current_context()
    yield
    assert faults() == [] and current_context() == before


GPUS = [Gpu(index) for index in range(3)]
