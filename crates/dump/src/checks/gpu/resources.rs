//! Checks on registers and shared memory per SM.

use std::fmt;

use octile_core::device::hopper::{HOPPER_GPUS, HopperGpu};

use super::{CheckOutcome, counted};
use crate::facts::{Assembled, Evidence, Facts, FileKind, Launch};

/// From all of the SASS, and from the ptxas report.
pub(super) fn no_spills(facts: &Facts) -> CheckOutcome {
    const NONE: &str = "there is no STL or LDL in the SASS";
    let assembled = facts.assembler.as_ref();
    if let Some(spills) = facts.spills.as_ref().filter(|spills| spills.instructions > 0) {
        let says = format!("{} stores and reloads of spilled registers (STL, LDL)", spills.instructions);
        return CheckOutcome::fail(says, vec![spills.evidence.clone()]);
    }
    if let Some(assembled) = assembled.filter(|a| a.report.spill_stores > 0 || a.report.spill_loads > 0) {
        let (stores, loads) = (assembled.report.spill_stores, assembled.report.spill_loads);
        let says = format!("ptxas reports {stores} bytes of spill stores and {loads} of spill loads");
        return CheckOutcome::fail(says, vec![assembled.spills_line.clone()]);
    }
    // A truncated listing does not show the rest.
    let is_cut = facts.files.iter().any(|file| file.kind == FileKind::Sass && !file.damage.is_empty());
    match (&facts.spills, assembled) {
        (Some(_), Some(assembled)) if !is_cut => {
            let says = format!("ptxas reports no spills, and {NONE}");
            CheckOutcome::pass(says, vec![assembled.spills_line.clone()])
        }
        // No single line is evidence for absence.
        (Some(_), None) => CheckOutcome::pass(NONE, Vec::new()),
        (_, Some(assembled)) => {
            CheckOutcome::pass("ptxas reports no spills", vec![assembled.spills_line.clone()])
        }
        (None, None) => CheckOutcome::unknown(
            "registers are assigned by ptxas: give the SASS or the report of `ptxas -v`",
        ),
    }
}

/// Whether an SM has registers and shared memory for the CTAs that it should hold.
pub(super) fn fits_on_sm(facts: &Facts) -> CheckOutcome {
    // All GPUs of this architecture have the same limits.
    let [gpu, ..] = HOPPER_GPUS;
    let blocks = match Blocks::of(facts) {
        Ok(blocks) => blocks,
        Err(missing) => return CheckOutcome::unknown(missing),
    };
    let (registers, all) = (blocks.registers(), HopperGpu::REGISTERS_PER_SM as u64);
    if registers > all {
        let says = format!("{blocks} {registers} registers, but an SM has {all}");
        return CheckOutcome::fail(says, blocks.evidence());
    }
    let Some(asked) = facts.shared_bytes else {
        return CheckOutcome::unknown(format!(
            "{blocks} {registers} of {all} registers, but the dynamic shared memory of the launch is only in the manifest \
             that `octile inspect` writes"
        ));
    };
    let (shared, most) = (blocks.shared_of_each(asked), gpu.shared_memory_per_block as u64);
    if shared > most {
        let says = format!("{shared} bytes of shared memory, but a CTA may have {most}");
        return CheckOutcome::fail(says, blocks.evidence());
    }
    let (shared, most) = (blocks.shared(asked), gpu.shared_memory_per_sm as u64);
    if shared > most {
        let says = format!("{blocks} {shared} bytes of shared memory, but an SM has {most}");
        return CheckOutcome::fail(says, blocks.evidence());
    }
    let says =
        format!("{blocks} {registers} of {all} registers and {shared} of {most} bytes of shared memory");
    CheckOutcome::pass(says, blocks.evidence())
}

/// The CTAs that an SM should hold. `Display` begins a sentence about what they take.
struct Blocks<'f> {
    launch: &'f Launch,
    assembled: &'f Assembled,
    threads: u64,
}

impl<'f> Blocks<'f> {
    /// From the files, or what is missing.
    fn of(facts: &'f Facts) -> Result<Self, String> {
        let (Some(launch), Some(assembled)) = (&facts.launch, &facts.assembler) else {
            return Err(
                "the PTX states the threads per CTA and the ptxas report (ptxas -v) their registers: \
                        give both"
                    .to_owned(),
            );
        };
        if !launch.target.starts_with("sm_90") {
            let target = &launch.target;
            return Err(format!("the SM limits of {target} are not known, only those of sm_90a"));
        }
        let threads = launch.threads.ok_or("the PTX does not declare the threads per CTA (.maxntid)")?;
        Ok(Self { launch, assembled, threads })
    }

    fn registers(&self) -> u64 {
        let unit = HopperGpu::REGISTER_UNIT as u64;
        let each = self.assembled.report.registers.div_ceil(unit).saturating_mul(unit);
        each.saturating_mul(self.threads).saturating_mul(self.launch.blocks_per_sm)
    }

    fn shared_of_each(&self, asked: u64) -> u64 {
        asked.saturating_add(self.assembled.report.static_shared)
    }

    /// Including what the system reserves.
    fn shared(&self, asked: u64) -> u64 {
        let each = self.shared_of_each(asked).saturating_add(HopperGpu::SHARED_RESERVE as u64);
        each.saturating_mul(self.launch.blocks_per_sm)
    }

    fn evidence(&self) -> Vec<Evidence> {
        vec![self.assembled.registers_line.clone(), self.launch.evidence.clone()]
    }
}

impl fmt::Display for Blocks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, threads) = (self.launch.blocks_per_sm, self.threads);
        let registers = self.assembled.report.registers;
        let take = if count == 1 { "takes" } else { "take" };
        write!(
            f,
            "{} of {threads} threads with {registers} registers each {take}",
            counted(count as usize, "CTA")
        )
    }
}
