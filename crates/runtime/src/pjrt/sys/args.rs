//! Argument structs: each C function takes a pointer to one and writes its results there.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::{
    Buffer, Client, Device, DeviceDescription, Error, Event, Executable, ExtensionBase, LoadedExecutable,
    Memory, NamedValue, SerializedExecutable, TopologyDescription,
};

/// Declares argument structs with their two common leading fields, and a `Default` that is zero except for
/// the size.
macro_rules! args {
    ($(
        $(#[$doc:meta])*
        $name:ident $(<$handle:ident>)? { $($(#[$field_doc:meta])* $field:ident: $type:ty = $empty:expr,)* }
    )*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name $(<$handle>)? {
            /// Bytes of this struct.
            pub struct_size: usize,
            /// Unused.
            pub extension_start: *mut ExtensionBase,
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $(<$handle>)? Default for $name $(<$handle>)? {
            fn default() -> Self {
                Self {
                    struct_size: size_of::<Self>(),
                    extension_start: ptr::null_mut(),
                    $($field: $empty,)*
                }
            }
        }
    )*};
}

args! {
    /// Arguments of the functions that take a handle and nothing else.
    HandleArgs<H> {
        /// The object.
        handle: *mut H = ptr::null_mut(),
    }
    /// Arguments of functions that return a string or bytes owned by the object.
    TextArgs<H> {
        /// The object.
        handle: *const H = ptr::null(),
        /// Out.
        text: *const c_char = ptr::null(),
        /// Out.
        text_size: usize = 0,
    }
    /// `PJRT_Error_GetCode_Args`.
    ErrorGetCodeArgs {
        /// The error.
        error: *const Error = ptr::null(),
        /// Out.
        code: c_int = 0,
    }
    /// `PJRT_Plugin_Initialize_Args`.
    PluginInitializeArgs {}
    /// `PJRT_Plugin_Attributes_Args`.
    PluginAttributesArgs {
        /// Out; lives as long as the process.
        attributes: *const NamedValue = ptr::null(),
        /// Out.
        num_attributes: usize = 0,
    }

    /// `PJRT_Client_Create_Args`. The key-value callbacks serve clients that span processes.
    ClientCreateArgs {
        /// Platform-specific options.
        create_options: *const NamedValue = ptr::null(),
        /// Their number.
        num_options: usize = 0,
        /// Unused.
        kv_get_callback: *const c_void = ptr::null(),
        /// Unused.
        kv_get_user_arg: *mut c_void = ptr::null_mut(),
        /// Unused.
        kv_put_callback: *const c_void = ptr::null(),
        /// Unused.
        kv_put_user_arg: *mut c_void = ptr::null_mut(),
        /// Out.
        client: *mut Client = ptr::null_mut(),
        /// Unused.
        kv_try_get_callback: *const c_void = ptr::null(),
        /// Unused.
        kv_try_get_user_arg: *mut c_void = ptr::null_mut(),
    }
    /// `PJRT_Client_AddressableDevices_Args`.
    ClientAddressableDevicesArgs {
        /// The client.
        client: *mut Client = ptr::null_mut(),
        /// Out; lives as long as the client.
        devices: *const *mut Device = ptr::null(),
        /// Out.
        num_devices: usize = 0,
    }
    /// `PJRT_Program`.
    Program {
        /// In or out, by function.
        code: *mut c_char = ptr::null_mut(),
        /// Bytes of the code.
        code_size: usize = 0,
        /// `mlir`, `hlo` or `hlo_with_config`.
        format: *const c_char = ptr::null(),
        /// Bytes of the format.
        format_size: usize = 0,
    }
    /// `PJRT_Client_Compile_Args`.
    ClientCompileArgs {
        /// The client.
        client: *mut Client = ptr::null_mut(),
        /// What to compile.
        program: *const Program = ptr::null(),
        /// A serialized `CompileOptionsProto`.
        compile_options: *const c_char = ptr::null(),
        /// Its bytes.
        compile_options_size: usize = 0,
        /// Out.
        executable: *mut LoadedExecutable = ptr::null_mut(),
    }
    /// `PJRT_Client_BufferFromHostBuffer_Args`.
    BufferFromHostArgs {
        /// The client.
        client: *mut Client = ptr::null_mut(),
        /// Host memory.
        data: *const c_void = ptr::null(),
        /// `PJRT_Buffer_Type`.
        element_type: c_int = 0,
        /// Dimensions, outermost first.
        dims: *const i64 = ptr::null(),
        /// Their number.
        num_dims: usize = 0,
        /// Null for dense rows.
        byte_strides: *const i64 = ptr::null(),
        /// Their number.
        num_byte_strides: usize = 0,
        /// When the host memory may change.
        host_buffer_semantics: c_int = 0,
        /// Where to.
        device: *mut Device = ptr::null_mut(),
        /// Null for the device's own.
        memory: *mut Memory = ptr::null_mut(),
        /// Null for the compiler's choice.
        device_layout: *mut MemoryLayout = ptr::null_mut(),
        /// Out; the caller destroys it.
        done_with_host_buffer: *mut Event = ptr::null_mut(),
        /// Out; the caller destroys it.
        buffer: *mut Buffer = ptr::null_mut(),
    }

    /// `PJRT_Device_GetDescription_Args`.
    DeviceGetDescriptionArgs {
        /// The device.
        device: *mut Device = ptr::null_mut(),
        /// Out; lives as long as the device.
        description: *mut DeviceDescription = ptr::null_mut(),
    }

    /// `PJRT_Executable_NumOutputs_Args`.
    ExecutableNumOutputsArgs {
        /// The executable.
        executable: *mut Executable = ptr::null_mut(),
        /// Out.
        num_outputs: usize = 0,
    }
    /// `PJRT_Executable_SizeOfGeneratedCodeInBytes_Args`.
    ExecutableCodeSizeArgs {
        /// The executable.
        executable: *mut Executable = ptr::null_mut(),
        /// Out.
        size_in_bytes: i64 = 0,
    }
    /// `PJRT_Executable_GetCostAnalysis_Args`.
    ExecutableCostAnalysisArgs {
        /// The executable.
        executable: *mut Executable = ptr::null_mut(),
        /// Out.
        num_properties: usize = 0,
        /// Out; lives as long as the executable.
        properties: *const NamedValue = ptr::null(),
    }
    /// `PJRT_Executable_OptimizedProgram_Args`.
    ExecutableOptimizedProgramArgs {
        /// The executable.
        executable: *mut Executable = ptr::null_mut(),
        /// In and out: called once for the size and once for the code.
        program: *mut Program = ptr::null_mut(),
    }
    /// `PJRT_Executable_Serialize_Args`.
    ExecutableSerializeArgs {
        /// The executable.
        executable: *const Executable = ptr::null(),
        /// Out; lives as long as its owner.
        bytes: *const c_char = ptr::null(),
        /// Out.
        bytes_size: usize = 0,
        /// Out.
        owner: *mut SerializedExecutable = ptr::null_mut(),
        /// Out; to be called once.
        deleter: Option<unsafe extern "C" fn(*mut SerializedExecutable)> = None,
    }
    /// `PJRT_Executable_GetCompiledMemoryStats_Args`; all but the first are out, in bytes.
    ExecutableMemoryStatsArgs {
        /// The executable.
        executable: *mut Executable = ptr::null_mut(),
        /// Machine code.
        generated_code: i64 = 0,
        /// Arguments.
        argument: i64 = 0,
        /// Results.
        output: i64 = 0,
        /// Arguments reused for results.
        alias: i64 = 0,
        /// Temporaries.
        temp: i64 = 0,
        /// The same five for host memory.
        host: [i64; 5] = [0; 5],
        /// Peak.
        peak_memory: i64 = 0,
        /// Total; since 0.90.
        total_size: i64 = 0,
        /// Since 0.104.
        total_allocation: i64 = 0,
        /// Since 0.104.
        indefinite_allocations: i64 = 0,
        /// Since 0.104.
        peak_unpadded_heap: i64 = 0,
    }

    /// `PJRT_LoadedExecutable_GetExecutable_Args`.
    GetExecutableArgs {
        /// The loaded executable.
        loaded_executable: *mut LoadedExecutable = ptr::null_mut(),
        /// Out; the caller destroys it.
        executable: *mut Executable = ptr::null_mut(),
    }
    /// `PJRT_ExecuteOptions`: one device, no callbacks.
    ExecuteOptions {
        /// Unused.
        send_callbacks: *mut c_void = ptr::null_mut(),
        /// Unused.
        recv_callbacks: *mut c_void = ptr::null_mut(),
        /// Unused.
        num_send_ops: usize = 0,
        /// Unused.
        num_recv_ops: usize = 0,
        /// Unused.
        launch_id: c_int = 0,
        /// Arguments that must survive the call.
        non_donatable_inputs: *const i64 = ptr::null(),
        /// Their number.
        num_non_donatable_inputs: usize = 0,
        /// Unused.
        context: *mut c_void = ptr::null_mut(),
        /// Unused.
        call_location: *const c_char = ptr::null(),
        /// Unused.
        num_tasks: usize = 0,
        /// Unused.
        task_ids: *mut c_int = ptr::null_mut(),
        /// Unused.
        incarnation_ids: *mut i64 = ptr::null_mut(),
        /// Unused.
        multi_slice_config: *mut c_void = ptr::null_mut(),
        /// Unused.
        use_major_to_minor_data_layout_for_callbacks: bool = false,
        /// Unused.
        hlo_output_callbacks: *mut c_void = ptr::null_mut(),
        /// Unused.
        num_hlo_output_callbacks: usize = 0,
    }
    /// `PJRT_LoadedExecutable_Execute_Args`.
    ExecuteArgs {
        /// What to run.
        executable: *mut LoadedExecutable = ptr::null_mut(),
        /// How.
        options: *mut ExecuteOptions = ptr::null_mut(),
        /// One list per device.
        argument_lists: *const *const *mut Buffer = ptr::null(),
        /// Devices.
        num_devices: usize = 0,
        /// Arguments of each device.
        num_args: usize = 0,
        /// Out: lists that the caller allocates, buffers that the caller destroys.
        output_lists: *const *mut *mut Buffer = ptr::null(),
        /// Out: one event per device, which the caller destroys.
        device_complete_events: *mut *mut Event = ptr::null_mut(),
        /// Null for the devices of the compilation.
        execute_device: *mut Device = ptr::null_mut(),
    }
    /// `PJRT_Executable_DeserializeAndLoad_Args`.
    DeserializeAndLoadArgs {
        /// The client.
        client: *mut Client = ptr::null_mut(),
        /// What `PJRT_Executable_Serialize` returned.
        serialized: *const c_char = ptr::null(),
        /// Its bytes.
        serialized_size: usize = 0,
        /// Out.
        loaded_executable: *mut LoadedExecutable = ptr::null_mut(),
        /// Null for the options of the compilation.
        compile_options: *const c_char = ptr::null(),
        /// Their bytes.
        compile_options_size: usize = 0,
        /// Unused.
        load_options: *mut c_void = ptr::null_mut(),
    }

    /// `PJRT_Buffer_ElementType_Args`.
    BufferElementTypeArgs {
        /// The buffer.
        buffer: *mut Buffer = ptr::null_mut(),
        /// Out: `PJRT_Buffer_Type`.
        element_type: c_int = 0,
    }
    /// `PJRT_Buffer_Dimensions_Args`.
    BufferDimensionsArgs {
        /// The buffer.
        buffer: *mut Buffer = ptr::null_mut(),
        /// Out; lives as long as the buffer.
        dims: *const i64 = ptr::null(),
        /// Out.
        num_dims: usize = 0,
    }
    /// `PJRT_Buffer_MemoryLayout` holding its `Tiled` variant, the larger of the two.
    MemoryLayout {
        /// Bytes of the `Tiled` variant.
        tiled_struct_size: usize = 7 * size_of::<usize>(),
        /// Unused.
        tiled_extension_start: *mut ExtensionBase = ptr::null_mut(),
        /// Innermost dimension first.
        minor_to_major: *const i64 = ptr::null(),
        /// Number of dimensions.
        minor_to_major_size: usize = 0,
        /// Unused.
        tile_dims: *const i64 = ptr::null(),
        /// Unused.
        tile_dim_sizes: *const usize = ptr::null(),
        /// Unused.
        num_tiles: usize = 0,
        /// Which variant: [`super::LAYOUT_TILED`].
        kind: c_int = super::LAYOUT_TILED,
    }
    /// `PJRT_Buffer_ToHostBuffer_Args`.
    BufferToHostArgs {
        /// The buffer.
        src: *mut Buffer = ptr::null_mut(),
        /// How the bytes are to lie in host memory.
        host_layout: *mut MemoryLayout = ptr::null_mut(),
        /// Where to; null to ask for the size.
        dst: *mut c_void = ptr::null_mut(),
        /// In and out.
        dst_size: usize = 0,
        /// Out; the caller destroys it.
        event: *mut Event = ptr::null_mut(),
    }

    /// `PJRT_TopologyDescription_Create_Args`.
    TopologyCreateArgs {
        /// For example `tpu7x:2x2x1`.
        name: *const c_char = ptr::null(),
        /// Its bytes.
        name_size: usize = 0,
        /// Platform-specific options.
        create_options: *const NamedValue = ptr::null(),
        /// Their number.
        num_options: usize = 0,
        /// Out.
        topology: *mut TopologyDescription = ptr::null_mut(),
    }
    /// `PJRT_TopologyDescription_GetDeviceDescriptions_Args`.
    TopologyDeviceDescriptionsArgs {
        /// The topology.
        topology: *const TopologyDescription = ptr::null(),
        /// Out; lives as long as the topology.
        descriptions: *const *mut DeviceDescription = ptr::null(),
        /// Out.
        num_descriptions: usize = 0,
    }
    /// `PJRT_Compile_Args`.
    CompileArgs {
        /// What to compile for.
        topology: *const TopologyDescription = ptr::null(),
        /// What to compile.
        program: *const Program = ptr::null(),
        /// A serialized `CompileOptionsProto`.
        compile_options: *const c_char = ptr::null(),
        /// Its bytes.
        compile_options_size: usize = 0,
        /// Optional.
        client: *mut Client = ptr::null_mut(),
        /// Out.
        executable: *mut Executable = ptr::null_mut(),
    }
}

/// `PJRT_Error_Destroy_Args`.
pub type ErrorDestroyArgs = HandleArgs<Error>;
/// `PJRT_Error_Message_Args`.
pub type ErrorMessageArgs = TextArgs<Error>;
/// `PJRT_Event_Destroy_Args`.
pub type EventDestroyArgs = HandleArgs<Event>;
/// `PJRT_Event_Await_Args`.
pub type EventAwaitArgs = HandleArgs<Event>;
/// `PJRT_Client_Destroy_Args`.
pub type ClientDestroyArgs = HandleArgs<Client>;
/// `PJRT_Client_PlatformName_Args`.
pub type ClientPlatformNameArgs = TextArgs<Client>;
/// `PJRT_Client_PlatformVersion_Args`.
pub type ClientPlatformVersionArgs = TextArgs<Client>;
/// `PJRT_DeviceDescription_Kind_Args`.
pub type DeviceDescriptionKindArgs = TextArgs<DeviceDescription>;
/// `PJRT_DeviceDescription_ToString_Args`.
pub type DeviceDescriptionToStringArgs = TextArgs<DeviceDescription>;
/// `PJRT_Executable_Destroy_Args`.
pub type ExecutableDestroyArgs = HandleArgs<Executable>;
/// `PJRT_Executable_Name_Args`.
pub type ExecutableNameArgs = TextArgs<Executable>;
/// `PJRT_Executable_Fingerprint_Args`.
pub type ExecutableFingerprintArgs = TextArgs<Executable>;
/// `PJRT_LoadedExecutable_Destroy_Args`.
pub type LoadedExecutableDestroyArgs = HandleArgs<LoadedExecutable>;
/// `PJRT_Buffer_Destroy_Args`.
pub type BufferDestroyArgs = HandleArgs<Buffer>;
/// `PJRT_TopologyDescription_Destroy_Args`.
pub type TopologyDestroyArgs = HandleArgs<TopologyDescription>;
/// `PJRT_TopologyDescription_PlatformName_Args`.
pub type TopologyPlatformNameArgs = TextArgs<TopologyDescription>;
/// `PJRT_TopologyDescription_PlatformVersion_Args`.
pub type TopologyPlatformVersionArgs = TextArgs<TopologyDescription>;
