//! Topologies: named sets of devices that need not be attached.

use std::ptr::NonNull;

use super::{Api, NamedValue, Result, call, object, slice};
use crate::pjrt::sys;

/// Functions that return text take the same arguments under different names.
macro_rules! text {
    ($api:expr, $field:ident, $handle:expr) => {{
        let mut args = $crate::pjrt::sys::TextArgs { handle: $handle, ..Default::default() };
        $crate::pjrt::result::call!($api, $field, &mut args)
            // SAFETY: the text lives as long as the object, which the caller keeps alive.
            .map(|()| unsafe { $crate::pjrt::result::copy_text(args.text, args.text_size) })
    }};
}

pub(super) use text;

impl Api {
    /// Creates the topology of a name such as `tpu7x:2x2x1`.
    pub fn topology_create(
        self,
        name: &str,
        options: &[NamedValue],
    ) -> Result<NonNull<sys::TopologyDescription>> {
        let options: Vec<_> = options.iter().map(NamedValue::as_raw).collect();
        let mut args = sys::TopologyCreateArgs {
            name: name.as_ptr().cast(),
            name_size: name.len(),
            create_options: options.as_ptr(),
            num_options: options.len(),
            ..Default::default()
        };
        call!(self, topology_create, &mut args)?;
        object(args.topology, "topology_create")
    }

    /// Frees a topology.
    ///
    /// # Safety
    /// `topology` must be a live topology of this plugin.
    pub unsafe fn topology_destroy(self, topology: NonNull<sys::TopologyDescription>) -> Result<()> {
        let mut args = sys::TopologyDestroyArgs { handle: topology.as_ptr(), ..Default::default() };
        call!(self, topology_destroy, &mut args)
    }

    /// Name of the platform, for example `tpu`.
    ///
    /// # Safety
    /// `topology` must be a live topology of this plugin.
    pub unsafe fn topology_platform_name(
        self,
        topology: NonNull<sys::TopologyDescription>,
    ) -> Result<String> {
        text!(self, topology_platform_name, topology.as_ptr())
    }

    /// The compiler's own version text.
    ///
    /// # Safety
    /// `topology` must be a live topology of this plugin.
    pub unsafe fn topology_platform_version(
        self,
        topology: NonNull<sys::TopologyDescription>,
    ) -> Result<String> {
        text!(self, topology_platform_version, topology.as_ptr())
    }

    /// The kind of every device, for example `TPU7x`.
    ///
    /// # Safety
    /// `topology` must be a live topology of this plugin.
    pub unsafe fn topology_device_kinds(
        self,
        topology: NonNull<sys::TopologyDescription>,
    ) -> Result<Vec<String>> {
        let mut args =
            sys::TopologyDeviceDescriptionsArgs { topology: topology.as_ptr(), ..Default::default() };
        call!(self, topology_device_descriptions, &mut args)?;
        // SAFETY: the list lives as long as the topology.
        let descriptions = unsafe { slice(args.descriptions, args.num_descriptions) };
        let kind =
            |description: &*mut sys::DeviceDescription| text!(self, device_description_kind, *description);
        descriptions.iter().map(kind).collect()
    }

    /// Compiles a program for a topology; no device is needed.
    ///
    /// # Safety
    /// `topology` must be a live topology of this plugin.
    pub unsafe fn compile(
        self,
        topology: NonNull<sys::TopologyDescription>,
        code: &[u8],
        format: &str,
        options: &[u8],
    ) -> Result<NonNull<sys::Executable>> {
        let program = program(code, format);
        let mut args = sys::CompileArgs {
            topology: topology.as_ptr(),
            program: &program,
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..Default::default()
        };
        call!(self, compile, &mut args)?;
        object(args.executable, "compile")
    }
}

/// A program to compile. The plugin only reads it, although the C type is not const.
pub(super) fn program(code: &[u8], format: &str) -> sys::Program {
    sys::Program {
        code: code.as_ptr().cast_mut().cast(),
        code_size: code.len(),
        format: format.as_ptr().cast(),
        format_size: format.len(),
        ..Default::default()
    }
}
