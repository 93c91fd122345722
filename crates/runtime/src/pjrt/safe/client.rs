//! Clients: attached devices, and programs that run on them.

use std::ptr::NonNull;
use std::rc::Rc;

use super::{Buffer, Executable, Plugin};
use crate::pjrt::options::CompileOptions;
use crate::pjrt::result::{Api, Error, ErrorCode, NamedValue};
use crate::pjrt::sys;

/// The devices of this process. Objects made by a client keep it open.
#[derive(Debug)]
pub struct Client {
    handle: ClientHandle,
}

/// The shared owner of a client.
#[derive(Clone, Debug)]
pub(super) struct ClientHandle {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    plugin: Plugin,
    raw: NonNull<sys::Client>,
}

impl ClientHandle {
    pub(super) fn api(&self) -> Api {
        self.inner.plugin.api()
    }

    pub(super) fn raw(&self) -> NonNull<sys::Client> {
        self.inner.raw
    }

    fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: everything that the client made holds a clone of the owner, so nothing is left.
        let _ = unsafe { self.plugin.api().client_destroy(self.raw) };
    }
}

/// A device of a client.
#[derive(Clone, Copy, Debug)]
pub struct Device<'client> {
    client: &'client ClientHandle,
    raw: NonNull<sys::Device>,
}

/// A program loaded onto a device.
#[derive(Debug)]
pub struct LoadedExecutable {
    client: ClientHandle,
    raw: NonNull<sys::LoadedExecutable>,
    num_outputs: usize,
}

impl Client {
    /// Opens the plugin's devices. Which options there are depends on the plugin.
    pub fn new(plugin: &Plugin, options: &[NamedValue]) -> Result<Self, Error> {
        let raw = plugin.api().client_create(options)?;
        let plugin = plugin.clone();
        let inner = Rc::new(Inner { plugin, raw });
        Ok(Self { handle: ClientHandle { inner } })
    }

    /// Name of the platform, for example `cuda`.
    pub fn platform_name(&self) -> Result<String, Error> {
        // SAFETY: the client is alive.
        unsafe { self.handle.api().client_platform_name(self.handle.raw()) }
    }

    /// The platform's own version text.
    pub fn platform_version(&self) -> Result<String, Error> {
        // SAFETY: the client is alive.
        unsafe { self.handle.api().client_platform_version(self.handle.raw()) }
    }

    /// The devices that this process may use.
    pub fn devices(&self) -> Result<Vec<Device<'_>>, Error> {
        // SAFETY: the client is alive.
        let devices = unsafe { self.handle.api().client_addressable_devices(self.handle.raw()) }?;
        let client = &self.handle;
        Ok(devices.into_iter().map(|raw| Device { client, raw }).collect())
    }

    /// Compiles StableHLO text and loads it.
    pub fn compile(&self, stablehlo: &str, options: &CompileOptions) -> Result<LoadedExecutable, Error> {
        let (client, options) = (self.handle.raw(), options.serialize());
        // SAFETY: the client is alive.
        let raw =
            unsafe { self.handle.api().client_compile(client, stablehlo.as_bytes(), "mlir", &options) }?;
        self.adopt(raw)
    }

    /// Loads what [`Executable::serialize`] returned.
    pub fn load(&self, serialized: &[u8]) -> Result<LoadedExecutable, Error> {
        // SAFETY: the client is alive.
        let raw = unsafe { self.handle.api().client_load(self.handle.raw(), serialized) }?;
        self.adopt(raw)
    }

    fn adopt(&self, raw: NonNull<sys::LoadedExecutable>) -> Result<LoadedExecutable, Error> {
        // Take ownership first, so that it is destroyed if something below fails.
        let mut loaded = LoadedExecutable { client: self.handle.clone(), raw, num_outputs: 0 };
        loaded.num_outputs = loaded.executable()?.num_outputs()?;
        Ok(loaded)
    }
}

impl Device<'_> {
    /// The device's kind, for example `NVIDIA H200`.
    pub fn kind(&self) -> Result<String, Error> {
        Ok(self.kind_and_name()?.0)
    }

    /// A short description, unique among the client's devices.
    pub fn name(&self) -> Result<String, Error> {
        Ok(self.kind_and_name()?.1)
    }

    fn kind_and_name(&self) -> Result<(String, String), Error> {
        // SAFETY: the device lives as long as its client, which is borrowed.
        unsafe { self.client.api().device_kind_and_name(self.raw) }
    }

    pub(super) fn client(&self) -> &ClientHandle {
        self.client
    }

    pub(super) fn raw(&self) -> NonNull<sys::Device> {
        self.raw
    }
}

impl LoadedExecutable {
    /// The underlying executable, for the compiler's figures.
    pub fn executable(&self) -> Result<Executable, Error> {
        let api = self.client.api();
        // SAFETY: the loaded executable is alive.
        let raw = unsafe { api.loaded_executable_get_executable(self.raw) }?;
        // SAFETY: the call above returned ownership.
        Ok(unsafe { Executable::from_raw(self.client.inner.plugin.clone(), raw) })
    }

    /// Runs on the client's first device, where the arguments must be, and waits for the results. Arguments
    /// are not donated.
    pub fn execute(&self, arguments: &[&Buffer]) -> Result<Vec<Buffer>, Error> {
        if !arguments.iter().all(|buffer| buffer.client().is(&self.client)) {
            return Err(Error::Plugin {
                code: ErrorCode::InvalidArgument,
                message: "a program and its arguments must belong to the same client".to_owned(),
            });
        }
        let arguments: Vec<_> = arguments.iter().map(|buffer| buffer.raw()).collect();
        let api = self.client.api();
        // SAFETY: all of them are alive and of one client, and the number of outputs is the executable's own.
        let outputs = unsafe { api.execute(self.raw, &arguments, self.num_outputs) }?;
        // SAFETY: the call above returned ownership.
        let own = |raw| unsafe { Buffer::from_raw(self.client.clone(), raw) };
        Ok(outputs.into_iter().map(own).collect())
    }
}

impl Drop for LoadedExecutable {
    fn drop(&mut self) {
        // SAFETY: this value owns the loaded executable. Errors cannot be reported here.
        let _ = unsafe { self.client.api().loaded_executable_destroy(self.raw) };
    }
}
