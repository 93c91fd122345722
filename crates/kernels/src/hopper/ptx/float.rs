//! Float arithmetic and conversions.

use octile_core::FloatKind;

use super::{B16, B32, F32, Pred, Ptx};

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal;)*) => {
        $($(#[$doc])*
        pub fn $name(&mut self, a: F32, b: F32) -> F32 {
            let out = self.f32();
            self.line(format_args!(concat!($mnemonic, " {}, {}, {}"), out, a, b));
            out
        })*
    };
}

impl Ptx {
    binary! {
        /// `a * b`
        mul_f32 = "mul.rn.f32";
        /// `a + b`
        add_f32 = "add.rn.f32";
        /// The larger of two floats.
        max_f32 = "max.f32";
    }

    /// A float register that holds a constant.
    pub fn float(&mut self, value: f32) -> F32 {
        let out = self.f32();
        self.set_float(out, value);
        out
    }

    /// Assigns a constant.
    pub fn set_float(&mut self, variable: F32, value: f32) {
        self.line(format_args!("mov.f32 {variable}, 0f{:08X}", value.to_bits()));
    }

    /// Assigns a float register to another.
    pub fn copy_float(&mut self, variable: F32, value: F32) {
        self.line(format_args!("mov.f32 {variable}, {value}"));
    }

    /// `variable += a * b`, rounded once.
    pub fn fma_into(&mut self, variable: F32, a: F32, b: F32) {
        self.line(format_args!("fma.rn.f32 {variable}, {a}, {b}, {variable}"));
    }

    /// `variable = a * b`
    pub fn mul_into(&mut self, variable: F32, a: F32, b: F32) {
        self.line(format_args!("mul.rn.f32 {variable}, {a}, {b}"));
    }

    /// Magnitude.
    pub fn abs_f32(&mut self, value: F32) -> F32 {
        let out = self.f32();
        self.line(format_args!("abs.f32 {out}, {value}"));
        out
    }

    /// `a == b`
    pub fn eq_f32(&mut self, a: F32, b: F32) -> Pred {
        let out = self.pred();
        self.line(format_args!("setp.eq.f32 {out}, {a}, {b}"));
        out
    }

    /// `yes` where the predicate holds, else `no`.
    pub fn select_f32(&mut self, yes: F32, no: F32, predicate: Pred) -> F32 {
        let out = self.f32();
        self.line(format_args!("selp.f32 {out}, {yes}, {no}, {predicate}"));
        out
    }

    /// Rounds two floats to 16 bits each, `low` in the low half.
    pub fn pack(&mut self, kind: FloatKind, low: F32, high: F32) -> B32 {
        let out = self.b32();
        let kind = match kind {
            FloatKind::Bf16 => "bf16x2",
            FloatKind::F16 => "f16x2",
            FloatKind::F32 => unreachable!("32-bit floats are not packed"),
        };
        self.line(format_args!("cvt.rn.{kind}.f32 {out}, {high}, {low}"));
        out
    }

    /// The two halves of a register.
    pub fn halves(&mut self, packed: B32) -> [B16; 2] {
        let out = [self.b16(), self.b16()];
        self.line(format_args!("mov.b32 {{{}, {}}}, {packed}", out[0], out[1]));
        out
    }

    /// Widens a 16-bit float, exactly.
    pub fn widen(&mut self, kind: FloatKind, value: B16) -> F32 {
        let out = self.f32();
        match kind {
            FloatKind::Bf16 => {
                let wide = self.b32();
                self.line(format_args!("mov.b32 {wide}, {{0, {value}}}"));
                self.line(format_args!("mov.b32 {out}, {wide}"));
            }
            FloatKind::F16 => self.line(format_args!("cvt.f32.f16 {out}, {value}")),
            FloatKind::F32 => unreachable!("32-bit floats are wide"),
        }
        out
    }

    /// Rounds two floats to f8e4m3fn, `low` in the low byte.
    pub fn pack_e4m3(&mut self, low: F32, high: F32) -> B16 {
        let out = self.b16();
        self.line(format_args!("cvt.rn.satfinite.e4m3x2.f32 {out}, {high}, {low}"));
        out
    }

    /// A 32-bit register with two halves.
    pub fn join_halves(&mut self, low: B16, high: B16) -> B32 {
        let out = self.b32();
        self.line(format_args!("mov.b32 {out}, {{{low}, {high}}}"));
        out
    }
}
