//! Topologies: targets of ahead-of-time compilation.

use std::ptr::NonNull;

use super::{Executable, Plugin};
use crate::pjrt::options::CompileOptions;
use crate::pjrt::result::{Error, NamedValue};
use crate::pjrt::sys;

/// A named set of devices.
#[derive(Debug)]
pub struct Topology {
    plugin: Plugin,
    raw: NonNull<sys::TopologyDescription>,
}

impl Topology {
    /// Opens the topology of a name such as `tpu7x:2x2x1`.
    pub fn new(plugin: &Plugin, name: &str, options: &[NamedValue]) -> Result<Self, Error> {
        let raw = plugin.api().topology_create(name, options)?;
        let plugin = plugin.clone();
        Ok(Self { plugin, raw })
    }

    /// Name of the platform, for example `tpu`.
    pub fn platform_name(&self) -> Result<String, Error> {
        // SAFETY: the topology is alive.
        unsafe { self.plugin.api().topology_platform_name(self.raw) }
    }

    /// The compiler's own version text.
    pub fn platform_version(&self) -> Result<String, Error> {
        // SAFETY: the topology is alive.
        unsafe { self.plugin.api().topology_platform_version(self.raw) }
    }

    /// The kind of every device, for example `TPU7x`.
    pub fn device_kinds(&self) -> Result<Vec<String>, Error> {
        // SAFETY: the topology is alive.
        unsafe { self.plugin.api().topology_device_kinds(self.raw) }
    }

    /// Compiles StableHLO text for one of the devices.
    pub fn compile(&self, stablehlo: &str, options: &CompileOptions) -> Result<Executable, Error> {
        let options = options.serialize();
        // SAFETY: the topology is alive.
        let raw = unsafe { self.plugin.api().compile(self.raw, stablehlo.as_bytes(), "mlir", &options) }?;
        // SAFETY: the call above returned ownership.
        Ok(unsafe { Executable::from_raw(self.plugin.clone(), raw) })
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        // SAFETY: this value owns the topology. Errors cannot be reported here.
        let _ = unsafe { self.plugin.api().topology_destroy(self.raw) };
    }
}
