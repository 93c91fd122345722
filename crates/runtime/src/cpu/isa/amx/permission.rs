//! Whether this process may use tiles.

use std::{arch::asm, sync::OnceLock};

use crate::cpu::cpuid::cpuid;

/// Whether tiles can be used: the CPU has them, the operating system saves them, and it permits this process
/// to use them. Permission is asked for once; threads inherit it.
pub(in crate::cpu::isa) fn is_usable() -> bool {
    static USABLE: OnceLock<bool> = OnceLock::new();
    *USABLE.get_or_init(|| has_tiles() && ask_permission())
}

fn has_tiles() -> bool {
    const AMX_BF16: u32 = 1 << 22;
    const AMX_TILE: u32 = 1 << 24;
    const OSXSAVE: u32 = 1 << 27;
    // Tile configuration and tile data.
    const TILE_STATE: u64 = 0b11 << 17;
    if cpuid(0, 0).eax < 7 || cpuid(1, 0).ecx & OSXSAVE == 0 {
        return false;
    }
    let features = cpuid(7, 0).edx;
    if features & AMX_BF16 == 0 || features & AMX_TILE == 0 {
        return false;
    }
    let (low, high): (u32, u32);
    // SAFETY: OSXSAVE says that the operating system has enabled the instruction.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    (u64::from(high) << 32 | u64::from(low)) & TILE_STATE == TILE_STATE
}

#[cfg(target_os = "linux")]
fn ask_permission() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XTILEDATA: libc::c_long = 18;
    // SAFETY: the call takes two numbers, and changes only what this process may use.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn ask_permission() -> bool {
    false
}
