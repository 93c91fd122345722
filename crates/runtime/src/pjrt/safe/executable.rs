//! Executables: compiled programs and what their compiler says about them.

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

/// Device memory that a run takes, in bytes, as the compiler counts it.
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
    /// The most that is held at once; 0 from plugins that do not say.
    pub peak: i64,
}

impl Executable {
    /// Takes over an executable.
    ///
    /// # Safety
    /// `raw` must be an executable of `plugin` that nobody else destroys.
    pub(super) unsafe fn from_raw(plugin: Plugin, raw: NonNull<sys::Executable>) -> Self {
        Self { plugin, raw }
    }

    /// The name of the module.
    pub fn name(&self) -> Result<String, Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_name(self.raw) }
    }

    /// How many results a run returns.
    pub fn num_outputs(&self) -> Result<usize, Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_num_outputs(self.raw) }
    }

    /// Bytes that are equal for equal compilations.
    pub fn fingerprint(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_fingerprint(self.raw) }
    }

    /// Bytes of machine code.
    pub fn code_size(&self) -> Result<i64, Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_code_size(self.raw) }
    }

    /// What the compiler says about the cost of a run: `flops`, `bytes accessed` and others.
    pub fn cost_analysis(&self) -> Result<Vec<NamedValue>, Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_cost_analysis(self.raw) }
    }

    /// How much device memory a run takes.
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

    /// The executable as bytes that the same version of the plugin can load again.
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.api().executable_serialize(self.raw) }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: this value owns the executable. An error here has nobody to go to.
        let _ = unsafe { self.plugin.api().executable_destroy(self.raw) };
    }
}
