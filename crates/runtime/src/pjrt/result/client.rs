//! Clients: attached devices, and executables loaded onto them.

use std::ptr::{self, NonNull};

use super::topology::{program, text};
use super::{Api, NamedValue, Result, call, object, slice};
use crate::pjrt::sys;

impl Api {
    /// Opens the devices of this process.
    pub fn client_create(self, options: &[NamedValue]) -> Result<NonNull<sys::Client>> {
        let options: Vec<_> = options.iter().map(NamedValue::as_raw).collect();
        let mut args = sys::ClientCreateArgs {
            create_options: options.as_ptr(),
            num_options: options.len(),
            ..Default::default()
        };
        call!(self, client_create, &mut args)?;
        object(args.client, "client_create")
    }

    /// Closes a client.
    ///
    /// # Safety
    /// `client` must be a live client of this plugin, and nothing made by it may be in use.
    pub unsafe fn client_destroy(self, client: NonNull<sys::Client>) -> Result<()> {
        let mut args = sys::ClientDestroyArgs { handle: client.as_ptr(), ..Default::default() };
        call!(self, client_destroy, &mut args)
    }

    /// Name of the platform, for example `cuda`.
    ///
    /// # Safety
    /// `client` must be a live client of this plugin.
    pub unsafe fn client_platform_name(self, client: NonNull<sys::Client>) -> Result<String> {
        text!(self, client_platform_name, client.as_ptr())
    }

    /// The platform's own version text.
    ///
    /// # Safety
    /// `client` must be a live client of this plugin.
    pub unsafe fn client_platform_version(self, client: NonNull<sys::Client>) -> Result<String> {
        text!(self, client_platform_version, client.as_ptr())
    }

    /// The devices that this process may use. They live as long as the client.
    ///
    /// # Safety
    /// `client` must be a live client of this plugin.
    pub unsafe fn client_addressable_devices(
        self,
        client: NonNull<sys::Client>,
    ) -> Result<Vec<NonNull<sys::Device>>> {
        let mut args = sys::ClientAddressableDevicesArgs { client: client.as_ptr(), ..Default::default() };
        call!(self, client_addressable_devices, &mut args)?;
        // SAFETY: the list lives as long as the client.
        let devices = unsafe { slice(args.devices, args.num_devices) };
        Ok(devices.iter().filter_map(|device| NonNull::new(*device)).collect())
    }

    /// The device's kind and a short unique description.
    ///
    /// # Safety
    /// `device` must be a device of a live client of this plugin.
    pub unsafe fn device_kind_and_name(self, device: NonNull<sys::Device>) -> Result<(String, String)> {
        let mut args = sys::DeviceGetDescriptionArgs { device: device.as_ptr(), ..Default::default() };
        call!(self, device_get_description, &mut args)?;
        let kind = text!(self, device_description_kind, args.description)?;
        let name = text!(self, device_description_to_string, args.description)?;
        Ok((kind, name))
    }

    /// Compiles a program and loads it onto the client's devices.
    ///
    /// # Safety
    /// `client` must be a live client of this plugin.
    pub unsafe fn client_compile(
        self,
        client: NonNull<sys::Client>,
        code: &[u8],
        format: &str,
        options: &[u8],
    ) -> Result<NonNull<sys::LoadedExecutable>> {
        let program = program(code, format);
        let mut args = sys::ClientCompileArgs {
            client: client.as_ptr(),
            program: &program,
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..Default::default()
        };
        call!(self, client_compile, &mut args)?;
        object(args.executable, "client_compile")
    }

    /// Loads what [`Api::executable_serialize`] returned.
    ///
    /// # Safety
    /// `client` must be a live client of this plugin.
    pub unsafe fn client_load(
        self,
        client: NonNull<sys::Client>,
        serialized: &[u8],
    ) -> Result<NonNull<sys::LoadedExecutable>> {
        let mut args = sys::DeserializeAndLoadArgs {
            client: client.as_ptr(),
            serialized: serialized.as_ptr().cast(),
            serialized_size: serialized.len(),
            ..Default::default()
        };
        call!(self, executable_deserialize_and_load, &mut args)?;
        object(args.loaded_executable, "executable_deserialize_and_load")
    }

    /// Frees a loaded executable.
    ///
    /// # Safety
    /// `executable` must be a live loaded executable of this plugin.
    pub unsafe fn loaded_executable_destroy(self, executable: NonNull<sys::LoadedExecutable>) -> Result<()> {
        let mut args = sys::LoadedExecutableDestroyArgs { handle: executable.as_ptr(), ..Default::default() };
        call!(self, loaded_executable_destroy, &mut args)
    }

    /// The executable of a loaded one; the caller destroys it.
    ///
    /// # Safety
    /// `executable` must be a live loaded executable of this plugin.
    pub unsafe fn loaded_executable_get_executable(
        self,
        executable: NonNull<sys::LoadedExecutable>,
    ) -> Result<NonNull<sys::Executable>> {
        let mut args =
            sys::GetExecutableArgs { loaded_executable: executable.as_ptr(), ..Default::default() };
        call!(self, loaded_executable_get_executable, &mut args)?;
        object(args.executable, "loaded_executable_get_executable")
    }

    /// Runs a loaded executable on its device and waits for it. Arguments are not donated; the caller
    /// destroys the `num_outputs` results.
    ///
    /// # Safety
    /// `executable` and `arguments` must be live objects of one client of this plugin, and `num_outputs` must
    /// be the executable's own number.
    pub unsafe fn execute(
        self,
        executable: NonNull<sys::LoadedExecutable>,
        arguments: &[NonNull<sys::Buffer>],
        num_outputs: usize,
    ) -> Result<Vec<NonNull<sys::Buffer>>> {
        let keep: Vec<i64> = (0..arguments.len() as i64).collect();
        let mut options = sys::ExecuteOptions {
            non_donatable_inputs: keep.as_ptr(),
            num_non_donatable_inputs: keep.len(),
            ..Default::default()
        };
        let arguments: Vec<*mut sys::Buffer> = arguments.iter().map(|buffer| buffer.as_ptr()).collect();
        let mut outputs = vec![ptr::null_mut(); num_outputs];
        let argument_lists = [arguments.as_ptr()];
        let output_lists = [outputs.as_mut_ptr()];
        let mut complete = [ptr::null_mut()];
        let mut args = sys::ExecuteArgs {
            executable: executable.as_ptr(),
            options: &mut options,
            argument_lists: argument_lists.as_ptr(),
            num_devices: 1,
            num_args: arguments.len(),
            output_lists: output_lists.as_ptr(),
            device_complete_events: complete.as_mut_ptr(),
            ..Default::default()
        };
        call!(self, loaded_executable_execute, &mut args)?;
        let finished = match NonNull::new(complete[0]) {
            // SAFETY: the call returned ownership of the event.
            Some(event) => unsafe { self.event_finish(event) },
            None => Ok(()),
        };
        let outputs: Vec<_> = outputs.into_iter().filter_map(NonNull::new).collect();
        if let Err(error) = finished {
            for output in outputs {
                // SAFETY: results of a failed run must be destroyed too.
                let _ = unsafe { self.buffer_destroy(output) };
            }
            return Err(error);
        }
        Ok(outputs)
    }
}
