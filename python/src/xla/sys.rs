//! The C structs of XLA's foreign function interface, API 0.1, from `xla/ffi/api/c_api.h`.
//!
//! Newer versions append fields; `size` tells how much of a struct exists.

use std::ffi::{c_char, c_int, c_void};

/// The version that the handlers declare. XLA accepts every version up to its own.
pub(super) const VERSION: (c_int, c_int) = (0, 1);
/// `XLA_FFI_Extension_Metadata`.
pub(super) const METADATA: c_int = 1;
/// `XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE`.
pub(super) const COMMAND_BUFFER_COMPATIBLE: u32 = 1;

#[repr(C)]
pub(super) struct Extension {
    pub size: usize,
    pub kind: c_int,
    pub next: *mut Extension,
}

#[repr(C)]
pub(super) struct ApiVersion {
    pub size: usize,
    pub extension: *mut Extension,
    pub major: c_int,
    pub minor: c_int,
}

#[repr(C)]
pub(super) struct Metadata {
    pub size: usize,
    pub version: ApiVersion,
    pub traits: u32,
}

#[repr(C)]
pub(super) struct MetadataExtension {
    pub base: Extension,
    pub metadata: *mut Metadata,
}

/// `XLA_FFI_Error_Code`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) enum ErrorCode {
    InvalidArgument = 3,
    Internal = 13,
}

#[repr(C)]
pub(super) struct ErrorCreate {
    pub size: usize,
    pub extension: *mut Extension,
    pub message: *const c_char,
    pub code: ErrorCode,
}

#[repr(C)]
pub(super) struct ErrorDestroy {
    pub size: usize,
    pub extension: *mut Extension,
    pub error: *mut c_void,
}

#[repr(C)]
pub(super) struct StreamGet {
    pub size: usize,
    pub extension: *mut Extension,
    pub context: *mut c_void,
    pub stream: *mut c_void,
}

#[repr(C)]
pub(super) struct DeviceOrdinalGet {
    pub size: usize,
    pub extension: *mut Extension,
    pub context: *mut c_void,
    pub ordinal: i32,
}

/// A function of the API that is not called here.
type Unused = *const c_void;

#[repr(C)]
pub(super) struct Api {
    pub size: usize,
    pub extension: *mut Extension,
    pub version: ApiVersion,
    pub internal: *const c_void,
    pub error_create: unsafe extern "C" fn(*mut ErrorCreate) -> *mut c_void,
    pub error_get_message: Unused,
    pub error_destroy: unsafe extern "C" fn(*mut ErrorDestroy),
    pub handler_register: Unused,
    pub stream_get: unsafe extern "C" fn(*mut StreamGet) -> *mut c_void,
    pub type_register: Unused,
    pub execution_context_get: Unused,
    pub state_set: Unused,
    pub state_get: Unused,
    pub device_memory_allocate: Unused,
    pub device_memory_free: Unused,
    pub thread_pool_schedule: Unused,
    pub thread_pool_num_threads: Unused,
    pub future_create: Unused,
    pub future_set_available: Unused,
    pub future_set_error: Unused,
    pub run_id_get: Unused,
    pub device_ordinal_get: unsafe extern "C" fn(*mut DeviceOrdinalGet) -> *mut c_void,
}

#[repr(C)]
pub(super) struct Buffer {
    pub size: usize,
    pub extension: *mut Extension,
    pub dtype: c_int,
    pub data: *mut c_void,
    pub rank: i64,
    pub dims: *const i64,
}

/// Arguments or results.
#[repr(C)]
pub(super) struct Buffers {
    pub size: usize,
    pub extension: *mut Extension,
    pub len: i64,
    pub types: *const c_int,
    pub items: *const *const Buffer,
}

#[repr(C)]
pub(super) struct ByteSpan {
    pub ptr: *const u8,
    pub len: usize,
}

#[repr(C)]
pub(super) struct Scalar {
    pub dtype: c_int,
    pub value: *const c_void,
}

#[repr(C)]
pub(super) struct Attributes {
    pub size: usize,
    pub extension: *mut Extension,
    pub len: i64,
    pub types: *const c_int,
    pub names: *const *const ByteSpan,
    pub items: *const *const c_void,
}

/// `XLA_FFI_AttrType`.
pub(super) const ATTRIBUTE_SCALAR: c_int = 3;
pub(super) const ATTRIBUTE_STRING: c_int = 4;

/// `XLA_FFI_ExecutionStage`.
pub(super) const STAGE_INITIALIZE: c_int = 2;
pub(super) const STAGE_EXECUTE: c_int = 3;

/// `XLA_FFI_DataType`.
pub(super) mod dtype {
    use std::ffi::c_int;

    pub(in crate::xla) const S64: c_int = 5;
    pub(in crate::xla) const U8: c_int = 6;
    pub(in crate::xla) const F16: c_int = 10;
    pub(in crate::xla) const F32: c_int = 11;
    pub(in crate::xla) const BF16: c_int = 16;
    pub(in crate::xla) const F8E4M3FN: c_int = 20;
}

#[repr(C)]
pub(super) struct CallFrame {
    pub size: usize,
    pub extension: *mut Extension,
    pub api: *const Api,
    pub context: *mut c_void,
    pub stage: c_int,
    pub arguments: Buffers,
    pub results: Buffers,
    pub attributes: Attributes,
}
