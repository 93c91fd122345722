//! Executables: results of a compilation.

use std::ptr::{self, NonNull};

use super::topology::text;
use super::{Api, NamedValue, Result, call, copy_text, slice};
use crate::pjrt::sys;

impl Api {
    /// Frees an executable.
    ///
    /// # Safety
    /// `executable` must be a live executable of this plugin.
    pub unsafe fn executable_destroy(self, executable: NonNull<sys::Executable>) -> Result<()> {
        let mut args = sys::ExecutableDestroyArgs { handle: executable.as_ptr(), ..Default::default() };
        call!(self, executable_destroy, &mut args)
    }

    /// The name of the module.
    ///
    /// # Safety
    /// `executable` must be a live executable of this plugin.
    pub unsafe fn executable_name(self, executable: NonNull<sys::Executable>) -> Result<String> {
        text!(self, executable_name, executable.as_ptr())
    }

    /// Fingerprint: equal for equal compilations.
    ///
    /// # Safety
    /// `executable` must be a live executable of this plugin.
    pub unsafe fn executable_fingerprint(self, executable: NonNull<sys::Executable>) -> Result<Vec<u8>> {
        let mut args = sys::ExecutableFingerprintArgs { handle: executable.as_ptr(), ..Default::default() };
        call!(self, executable_fingerprint, &mut args)?;
        // SAFETY: the bytes live as long as the executable.
        Ok(unsafe { slice(args.text.cast::<u8>(), args.text_size) }.to_vec())
    }

    /// Number of results.
    ///
    /// # Safety
    /// `executable` must be a live executable of this plugin.
    pub unsafe fn executable_num_outputs(self, executable: NonNull<sys::Executable>) -> Result<usize> {
        let mut args =
            sys::ExecutableNumOutputsArgs { executable: executable.as_ptr(), ..Default::default() };
        call!(self, executable_num_outputs, &mut args)?;
        Ok(args.num_outputs)
    }

    /// Size of the machine code in bytes.
    ///
    /// # Safety
    /// `executable` must be a live executable of this plugin.
    pub unsafe fn executable_code_size(self, executable: NonNull<sys::Executable>) -> Result<i64> {
        let mut args = sys::ExecutableCodeSizeArgs { executable: executable.as_ptr(), ..Default::default() };
        call!(self, executable_code_size, &mut args)?;
        Ok(args.size_in_bytes)
    }

    /// The compiler's cost analysis: `flops`, `bytes accessed` and others.
    ///
    /// # Safety
    /// `executable` must be a live executable of this plugin.
    pub unsafe fn executable_cost_analysis(
        self,
        executable: NonNull<sys::Executable>,
    ) -> Result<Vec<NamedValue>> {
        let mut args =
            sys::ExecutableCostAnalysisArgs { executable: executable.as_ptr(), ..Default::default() };
        call!(self, executable_cost_analysis, &mut args)?;
        // SAFETY: the list lives as long as the executable.
        Ok(unsafe { NamedValue::copy_list(args.properties, args.num_properties) })
    }

    /// Device memory of a run, in bytes.
    ///
    /// # Safety
    /// `executable` must be a live executable of this plugin.
    pub unsafe fn executable_memory_stats(
        self,
        executable: NonNull<sys::Executable>,
    ) -> Result<sys::ExecutableMemoryStatsArgs> {
        let mut args =
            sys::ExecutableMemoryStatsArgs { executable: executable.as_ptr(), ..Default::default() };
        call!(self, executable_memory_stats, &mut args)?;
        args.executable = ptr::null_mut();
        Ok(args)
    }

    /// The program after optimization, with the name of its format.
    ///
    /// # Safety
    /// `executable` must be a live executable of this plugin.
    pub unsafe fn executable_optimized_program(
        self,
        executable: NonNull<sys::Executable>,
    ) -> Result<(String, Vec<u8>)> {
        let mut program = sys::Program::default();
        let mut args = sys::ExecutableOptimizedProgramArgs {
            executable: executable.as_ptr(),
            program: &mut program,
            ..Default::default()
        };
        call!(self, executable_optimized_program, &mut args)?;
        let mut code = vec![0; program.code_size];
        program.code = code.as_mut_ptr().cast();
        args.program = &mut program;
        call!(self, executable_optimized_program, &mut args)?;
        code.truncate(program.code_size);
        // SAFETY: the plugin owns the name of the format for as long as the executable lives.
        let format = unsafe { copy_text(program.format, program.format_size) };
        Ok((format, code))
    }

    /// Serializes the executable; the same plugin can load it.
    ///
    /// # Safety
    /// `executable` must be a live executable of this plugin.
    pub unsafe fn executable_serialize(self, executable: NonNull<sys::Executable>) -> Result<Vec<u8>> {
        let mut args = sys::ExecutableSerializeArgs { executable: executable.as_ptr(), ..Default::default() };
        call!(self, executable_serialize, &mut args)?;
        // SAFETY: the bytes live until their owner is deleted, below.
        let bytes = unsafe { slice(args.bytes.cast::<u8>(), args.bytes_size) }.to_vec();
        if let Some(delete) = args.deleter {
            // SAFETY: the API requires exactly one call of the deleter.
            unsafe { delete(args.owner) };
        }
        Ok(bytes)
    }
}
