//! Executables: compiled programs and the compiler's figures about them.

use std::ptr::NonNull;

use serde::{Deserialize, Serialize};

use super::Plugin;
use crate::pjrt::result::{Error, NamedValue};
use crate::pjrt::sys;

/// A compiled program.
#[derive(Debug)]
pub struct Executable {
    plugin: Plugin,
    raw: NonNull<sys::Executable>,
}

/// Device memory of a run in bytes, as the compiler counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// Machine code.
    pub generated_code: i64,
    /// Arguments.
    pub argument: i64,
    /// Results.
    pub output: i64,
    /// Arguments reused for results.
    pub alias: i64,
    /// Temporaries.
    pub temp: i64,
    /// Peak; 0 if the plugin does not report it.
    pub peak: i64,
}

impl Executable {
    /// Takes ownership of an executable.
    ///
    /// # Safety
    /// `raw` must be an executable of `plugin` that no one else destroys.
    pub(super) unsafe fn from_raw(plugin: Plugin, raw: NonNull<sys::Executable>) -> Self {
        Self { plugin, raw }
    }

    /// The name of the module.
    pub fn name(&self) -> Result<String, Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_name(self.raw) }
    }

    /// Number of results.
    pub fn num_outputs(&self) -> Result<usize, Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_num_outputs(self.raw) }
    }

    /// Fingerprint: equal for equal compilations.
    pub fn fingerprint(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_fingerprint(self.raw) }
    }

    /// Size of the machine code in bytes.
    pub fn code_size(&self) -> Result<i64, Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_code_size(self.raw) }
    }

    /// The compiler's cost analysis: `flops`, `bytes accessed` and others.
    pub fn cost_analysis(&self) -> Result<Vec<NamedValue>, Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_cost_analysis(self.raw) }
    }

    /// Device memory of a run.
    pub fn memory_stats(&self) -> Result<MemoryStats, Error> {
        // SAFETY: the executable is alive.
        let raw = unsafe { self.plugin.api().executable_memory_stats(self.raw) }?;
        Ok(MemoryStats {
            generated_code: raw.generated_code,
            argument: raw.argument,
            output: raw.output,
            alias: raw.alias,
            temp: raw.temp,
            peak: raw.peak_memory,
        })
    }

    /// The program after optimization, with the name of its format: a serialized HLO module.
    pub fn optimized_program(&self) -> Result<(String, Vec<u8>), Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_optimized_program(self.raw) }
    }

    /// Serializes the executable; the same version of the plugin can load it.
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_serialize(self.raw) }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: this value owns the executable. Errors cannot be reported here.
        let _ = unsafe { self.plugin.api().executable_destroy(self.raw) };
    }
}
