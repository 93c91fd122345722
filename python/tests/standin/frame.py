"""Calls of XLA's foreign function interface, as `xla/ffi/api/c_api.h` has them, without XLA."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p

INITIALIZE, EXECUTE = 2, 3
_SCALAR, _STRING, _S64 = 3, 4, 5
#: XLA's numbers of element types.
DTYPES = {"uint8": 6, "float16": 10, "float32": 11, "bfloat16": 16, "float8_e4m3fn": 20}


def _struct(name, *fields):
    """A struct of the interface: each begins with its size and a list of extensions."""
    head = [("size", c_size_t), ("extension", c_void_p)]
    return type(name, (ctypes.Structure,), {"_fields_": [*head, *fields]})


_Version = _struct("Version", ("major", c_int), ("minor", c_int))
_ErrorCreate = _struct("ErrorCreate", ("message", c_char_p), ("code", c_int))
_StreamGet = _struct("StreamGet", ("context", c_void_p), ("stream", c_void_p))
_OrdinalGet = _struct("OrdinalGet", ("context", c_void_p), ("ordinal", c_int32))
_FUNCTIONS = (
    "error_create error_get_message error_destroy handler_register stream_get type_register "
    "execution_context_get state_set state_get device_memory_allocate device_memory_free "
    "thread_pool_schedule thread_pool_num_threads future_create future_set_available future_set_error "
    "run_id_get device_ordinal_get"
).split()
_Api = _struct(
    "Api", ("version", _Version), ("internal", c_void_p), *((name, c_void_p) for name in _FUNCTIONS)
)
_Buffer = _struct(
    "Buffer", ("dtype", c_int), ("data", c_void_p), ("rank", c_int64), ("dims", POINTER(c_int64))
)
_Buffers = _struct("Buffers", ("len", c_int64), ("types", c_void_p), ("items", c_void_p))
_Attributes = _struct(
    "Attributes", ("len", c_int64), ("types", c_void_p), ("names", c_void_p), ("items", c_void_p)
)
_Frame = _struct(
    "Frame",
    ("api", c_void_p),
    ("context", c_void_p),
    ("stage", c_int),
    ("arguments", _Buffers),
    ("results", _Buffers),
    ("attributes", _Attributes),
)


class _Span(ctypes.Structure):
    _fields_ = [("data", c_char_p), ("len", c_size_t)]


class _Scalar(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("value", c_void_p)]


def call(capsule, stage, gpu, arguments, results, attributes):
    """Calls a handler for an execution on a GPU; operands are addresses, dtypes and shapes. Returns the
    message of its error, or None."""
    alive, messages = [], []

    def keep(value):
        alive.append(value)
        return value

    def array(kind, items):
        return ctypes.cast(keep((kind * len(items))(*items)), c_void_p)

    def pointers(items):
        return array(c_void_p, [ctypes.addressof(keep(item)) for item in items])

    def function(kind, body):
        def written(argument):
            return body(ctypes.cast(argument, POINTER(kind)).contents)

        return ctypes.cast(keep(CFUNCTYPE(c_void_p, c_void_p)(written)), c_void_p)

    def create_error(error):
        messages.append(error.message.decode())
        return 1

    def get_stream(get):
        get.stream = gpu.stream

    def get_ordinal(get):
        get.ordinal = gpu.index

    def buffers(operands):
        found = [
            _Buffer(0, None, DTYPES[dtype], address, len(shape), (c_int64 * len(shape))(*shape))
            for address, dtype, shape in operands
        ]
        return _Buffers(ctypes.sizeof(_Buffers), None, len(found), None, pointers(found))

    def span(text):
        return _Span(text.encode(), len(text.encode()))

    def attribute(value):
        if isinstance(value, str):
            return span(value)
        return _Scalar(_S64, ctypes.addressof(keep(c_int64(value))))

    api = _Api(ctypes.sizeof(_Api))
    api.error_create = function(_ErrorCreate, create_error)
    api.stream_get = function(_StreamGet, get_stream)
    api.device_ordinal_get = function(_OrdinalGet, get_ordinal)
    kinds = [_STRING if isinstance(value, str) else _SCALAR for value in attributes.values()]
    frame = _Frame(
        ctypes.sizeof(_Frame),
        None,
        ctypes.addressof(api),
        None,
        stage,
        buffers(arguments),
        buffers(results),
        _Attributes(
            ctypes.sizeof(_Attributes),
            None,
            len(attributes),
            array(c_int, kinds),
            pointers([span(name) for name in attributes]),
            pointers([attribute(value) for value in attributes.values()]),
        ),
    )
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    handler = CFUNCTYPE(c_void_p, c_void_p)(get_pointer(capsule, b"xla._CUSTOM_CALL_TARGET"))
    failed = handler(ctypes.cast(byref(frame), c_void_p))
    return messages.pop() if failed else None
