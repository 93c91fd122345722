//! The PJRT C API up to version 0.114: the structs and functions that are used here.
//!
//! The API grows at the end only: a table or struct of an older plugin is a prefix of these, and both sides
//! carry a `struct_size`. So read fields of the table through [`super::result::Api`], which checks the
//! plugin's size first.

pub mod args;

use std::ffi::{c_char, c_int, c_void};

pub use args::*;

/// The major version of these layouts; another major version has other layouts.
pub const API_MAJOR: c_int = 0;

/// The oldest minor version with this order of the functions: 0.57 rearranged the table.
pub const API_MINOR_MIN: c_int = 57;

/// The exported function that returns the table.
pub const ENTRY_POINT: &[u8] = b"GetPjrtApi\0";

/// Signature of the exported function.
pub type GetPjrtApi = unsafe extern "C" fn() -> *const Api;

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name {
            _opaque: [u8; 0],
        }
    )*};
}

opaque! {
    /// `PJRT_Error`.
    Error;
    /// `PJRT_Event`.
    Event;
    /// `PJRT_Client`.
    Client;
    /// `PJRT_Device`.
    Device;
    /// `PJRT_DeviceDescription`.
    DeviceDescription;
    /// `PJRT_Memory`.
    Memory;
    /// `PJRT_Executable`.
    Executable;
    /// `PJRT_LoadedExecutable`.
    LoadedExecutable;
    /// `PJRT_SerializedExecutable`.
    SerializedExecutable;
    /// `PJRT_Buffer`.
    Buffer;
    /// `PJRT_TopologyDescription`.
    TopologyDescription;
    /// `PJRT_Extension_Base`: a list of extensions, not used here.
    ExtensionBase;
}

/// `PJRT_Api_Version`.
#[repr(C)]
pub struct ApiVersion {
    /// Size of this struct in the plugin.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut ExtensionBase,
    /// Must equal [`API_MAJOR`].
    pub major: c_int,
    /// Incremented with every addition.
    pub minor: c_int,
}

/// `PJRT_NamedValue`.
#[repr(C)]
pub struct NamedValue {
    /// Bytes of this struct.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut ExtensionBase,
    /// Not NUL-terminated.
    pub name: *const c_char,
    /// Bytes of the name.
    pub name_size: usize,
    /// One of the `NAMED_*` constants.
    pub kind: c_int,
    /// The value, or a pointer to it.
    pub value: NamedValuePayload,
    /// Elements of a list or bytes of a string; 1 for scalars.
    pub value_size: usize,
}

/// The union inside of [`NamedValue`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union NamedValuePayload {
    /// [`NAMED_STRING`].
    pub string: *const c_char,
    /// [`NAMED_INT64`].
    pub int64: i64,
    /// [`NAMED_INT64_LIST`].
    pub int64_list: *const i64,
    /// [`NAMED_FLOAT`].
    pub float: f32,
    /// [`NAMED_BOOL`].
    pub boolean: bool,
}

/// `PJRT_NamedValue_kString`.
pub const NAMED_STRING: c_int = 0;
/// `PJRT_NamedValue_kInt64`.
pub const NAMED_INT64: c_int = 1;
/// `PJRT_NamedValue_kInt64List`.
pub const NAMED_INT64_LIST: c_int = 2;
/// `PJRT_NamedValue_kFloat`.
pub const NAMED_FLOAT: c_int = 3;
/// `PJRT_NamedValue_kBool`.
pub const NAMED_BOOL: c_int = 4;

/// `PJRT_HostBufferSemantics_kImmutableOnlyDuringCall`: the plugin does not use the memory after the call.
pub const HOST_BUFFER_IMMUTABLE_ONLY_DURING_CALL: c_int = 0;

/// `PJRT_Buffer_MemoryLayout_Type_Tiled`.
pub const LAYOUT_TILED: c_int = 0;

/// A function of the table; null if the plugin does not implement it.
pub type Function<Args> = Option<unsafe extern "C" fn(*mut Args) -> *mut Error>;

/// A function of the table that is not used here.
type Unused = *const c_void;

/// `PJRT_Api`, up to the last function that is used here.
#[repr(C)]
pub struct Api {
    /// Size of the table in the plugin.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut ExtensionBase,
    /// The plugin's API version.
    pub version: ApiVersion,

    /// `PJRT_Error_Destroy`.
    pub error_destroy: Option<unsafe extern "C" fn(*mut ErrorDestroyArgs)>,
    /// `PJRT_Error_Message`.
    pub error_message: Option<unsafe extern "C" fn(*mut ErrorMessageArgs)>,
    /// `PJRT_Error_GetCode`.
    pub error_get_code: Function<ErrorGetCodeArgs>,
    /// `PJRT_Plugin_Initialize`.
    pub plugin_initialize: Function<PluginInitializeArgs>,
    /// `PJRT_Plugin_Attributes`.
    pub plugin_attributes: Function<PluginAttributesArgs>,

    /// `PJRT_Event_Destroy`.
    pub event_destroy: Function<EventDestroyArgs>,
    _event_is_ready_error: [Unused; 2],
    /// `PJRT_Event_Await`.
    pub event_await: Function<EventAwaitArgs>,
    _event_on_ready: Unused,

    /// `PJRT_Client_Create`.
    pub client_create: Function<ClientCreateArgs>,
    /// `PJRT_Client_Destroy`.
    pub client_destroy: Function<ClientDestroyArgs>,
    /// `PJRT_Client_PlatformName`.
    pub client_platform_name: Function<ClientPlatformNameArgs>,
    _client_process_index: Unused,
    /// `PJRT_Client_PlatformVersion`.
    pub client_platform_version: Function<ClientPlatformVersionArgs>,
    _client_devices: Unused,
    /// `PJRT_Client_AddressableDevices`.
    pub client_addressable_devices: Function<ClientAddressableDevicesArgs>,
    _client_lookup_device_addressable_memories: [Unused; 3],
    /// `PJRT_Client_Compile`.
    pub client_compile: Function<ClientCompileArgs>,
    _client_default_device_assignment: Unused,
    /// `PJRT_Client_BufferFromHostBuffer`.
    pub client_buffer_from_host_buffer: Function<BufferFromHostArgs>,

    _device_description_id_process_index_attributes: [Unused; 3],
    /// `PJRT_DeviceDescription_Kind`.
    pub device_description_kind: Function<DeviceDescriptionKindArgs>,
    _device_description_debug_string: Unused,
    /// `PJRT_DeviceDescription_ToString`.
    pub device_description_to_string: Function<DeviceDescriptionToStringArgs>,
    /// `PJRT_Device_GetDescription`.
    pub device_get_description: Function<DeviceGetDescriptionArgs>,
    _device_and_memory: [Unused; 10],

    /// `PJRT_Executable_Destroy`.
    pub executable_destroy: Function<ExecutableDestroyArgs>,
    /// `PJRT_Executable_Name`.
    pub executable_name: Function<ExecutableNameArgs>,
    _executable_num_replicas_partitions: [Unused; 2],
    /// `PJRT_Executable_NumOutputs`.
    pub executable_num_outputs: Function<ExecutableNumOutputsArgs>,
    /// `PJRT_Executable_SizeOfGeneratedCodeInBytes`.
    pub executable_code_size: Function<ExecutableCodeSizeArgs>,
    /// `PJRT_Executable_GetCostAnalysis`.
    pub executable_cost_analysis: Function<ExecutableCostAnalysisArgs>,
    _executable_output_memory_kinds: Unused,
    /// `PJRT_Executable_OptimizedProgram`.
    pub executable_optimized_program: Function<ExecutableOptimizedProgramArgs>,
    /// `PJRT_Executable_Serialize`.
    pub executable_serialize: Function<ExecutableSerializeArgs>,

    /// `PJRT_LoadedExecutable_Destroy`.
    pub loaded_executable_destroy: Function<LoadedExecutableDestroyArgs>,
    /// `PJRT_LoadedExecutable_GetExecutable`.
    pub loaded_executable_get_executable: Function<GetExecutableArgs>,
    _loaded_executable_devices_delete_is_deleted: [Unused; 3],
    /// `PJRT_LoadedExecutable_Execute`.
    pub loaded_executable_execute: Function<ExecuteArgs>,
    /// `PJRT_Executable_DeserializeAndLoad`.
    pub executable_deserialize_and_load: Function<DeserializeAndLoadArgs>,
    _loaded_executable_fingerprint: Unused,

    /// `PJRT_Buffer_Destroy`.
    pub buffer_destroy: Function<BufferDestroyArgs>,
    /// `PJRT_Buffer_ElementType`.
    pub buffer_element_type: Function<BufferElementTypeArgs>,
    /// `PJRT_Buffer_Dimensions`.
    pub buffer_dimensions: Function<BufferDimensionsArgs>,
    _buffer_unpadded_to_copy_to_device: [Unused; 9],
    /// `PJRT_Buffer_ToHostBuffer`.
    pub buffer_to_host_buffer: Function<BufferToHostArgs>,
    _buffer_is_on_cpu_to_copy_stream: [Unused; 11],

    /// `PJRT_TopologyDescription_Create`.
    pub topology_create: Function<TopologyCreateArgs>,
    /// `PJRT_TopologyDescription_Destroy`.
    pub topology_destroy: Function<TopologyDestroyArgs>,
    /// `PJRT_TopologyDescription_PlatformName`.
    pub topology_platform_name: Function<TopologyPlatformNameArgs>,
    /// `PJRT_TopologyDescription_PlatformVersion`.
    pub topology_platform_version: Function<TopologyPlatformVersionArgs>,
    /// `PJRT_TopologyDescription_GetDeviceDescriptions`.
    pub topology_device_descriptions: Function<TopologyDeviceDescriptionsArgs>,
    _topology_serialize_attributes: [Unused; 2],
    /// `PJRT_Compile`.
    pub compile: Function<CompileArgs>,
    _executable_output_types_to_view_of_device_buffer: [Unused; 4],
    /// `PJRT_Executable_Fingerprint`.
    pub executable_fingerprint: Function<ExecutableFingerprintArgs>,
    _client_topology_description: Unused,
    /// `PJRT_Executable_GetCompiledMemoryStats`.
    pub executable_memory_stats: Function<ExecutableMemoryStatsArgs>,
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Index of a function in the table, from 0.
    macro_rules! index {
        ($field:ident) => {
            (offset_of!(Api, $field) - offset_of!(Api, error_destroy)) / size_of::<usize>()
        };
    }

    #[test]
    fn functions_sit_where_the_header_puts_them() {
        assert_eq!(offset_of!(Api, error_destroy), 40);
        assert_eq!(index!(plugin_initialize), 3);
        assert_eq!(index!(event_await), 8);
        assert_eq!(index!(client_create), 10);
        assert_eq!(index!(client_addressable_devices), 16);
        assert_eq!(index!(client_compile), 20);
        assert_eq!(index!(client_buffer_from_host_buffer), 22);
        assert_eq!(index!(device_description_kind), 26);
        assert_eq!(index!(device_get_description), 29);
        assert_eq!(index!(executable_destroy), 40);
        assert_eq!(index!(executable_num_outputs), 44);
        assert_eq!(index!(executable_cost_analysis), 46);
        assert_eq!(index!(executable_optimized_program), 48);
        assert_eq!(index!(loaded_executable_destroy), 50);
        assert_eq!(index!(loaded_executable_execute), 55);
        assert_eq!(index!(executable_deserialize_and_load), 56);
        assert_eq!(index!(buffer_destroy), 58);
        assert_eq!(index!(buffer_dimensions), 60);
        assert_eq!(index!(buffer_to_host_buffer), 70);
        assert_eq!(index!(topology_create), 82);
        assert_eq!(index!(topology_device_descriptions), 86);
        assert_eq!(index!(compile), 89);
        assert_eq!(index!(executable_fingerprint), 94);
        assert_eq!(index!(executable_memory_stats), 96);
    }
}
