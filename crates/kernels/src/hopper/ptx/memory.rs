//! Ordinary loads and stores.

use super::{B16, B32, B64, F32, Global, Pred, Ptx, Shared};

impl Ptx {
    /// A 32-bit parameter.
    pub fn number(&mut self, name: &str) -> B32 {
        let out = self.b32();
        self.line(format_args!("ld.param.u32 {out}, [{name}]"));
        out
    }

    /// A device pointer parameter.
    pub fn pointer(&mut self, name: &str) -> B64 {
        let (generic, out) = (self.b64(), self.b64());
        self.line(format_args!("ld.param.u64 {generic}, [{name}]"));
        self.line(format_args!("cvta.to.global.u64 {out}, {generic}"));
        out
    }

    /// The address of a tensor map parameter.
    pub fn tensor_map(&mut self, name: &str) -> B64 {
        let (parameter, out) = (self.b64(), self.b64());
        self.line(format_args!("mov.b64 {parameter}, {name}"));
        self.line(format_args!("cvta.param.u64 {out}, {parameter}"));
        out
    }

    /// Where this block's shared memory starts.
    pub fn shared_memory(&mut self) -> B32 {
        let out = self.b32();
        self.line(format_args!("mov.u32 {out}, shared_memory"));
        out
    }

    /// Loads a float that no one writes meanwhile.
    pub fn load_global_f32(&mut self, at: Global) -> F32 {
        let out = self.f32();
        self.line(format_args!("ld.global.nc.f32 {out}, {at}"));
        out
    }

    /// Loads 16 bytes that no one writes meanwhile into `out` where the predicate holds.
    pub fn load_global_16_into(&mut self, out: [B32; 4], at: Global, predicate: Pred) {
        let [a, b, c, d] = out;
        self.line(format_args!("@{predicate} ld.global.nc.v4.b32 {{{a}, {b}, {c}, {d}}}, {at}"));
    }

    /// Loads 16 bits where the predicate holds, else 0.
    pub fn load_global_b16_if(&mut self, at: Global, predicate: Pred) -> B16 {
        let out = self.b16();
        self.line(format_args!("mov.b16 {out}, 0"));
        self.line(format_args!("@{predicate} ld.global.nc.b16 {out}, {at}"));
        out
    }

    /// Loads a float where the predicate holds, else 0.
    pub fn load_global_f32_if(&mut self, at: Global, predicate: Pred) -> F32 {
        let out = self.float(0.0);
        self.line(format_args!("@{predicate} ld.global.nc.f32 {out}, {at}"));
        out
    }

    /// Stores 16 bits where the predicate holds.
    pub fn store_global_b16_if(&mut self, at: Global, value: B16, predicate: Pred) {
        self.line(format_args!("@{predicate} st.global.b16 {at}, {value}"));
    }

    /// Stores 32 bits where the predicate holds.
    pub fn store_global_b32_if(&mut self, at: Global, value: B32, predicate: Pred) {
        self.line(format_args!("@{predicate} st.global.b32 {at}, {value}"));
    }

    /// Stores a float where the predicate holds.
    pub fn store_global_f32_if(&mut self, at: Global, value: F32, predicate: Pred) {
        self.line(format_args!("@{predicate} st.global.f32 {at}, {value}"));
    }

    /// Stores 8 bytes where the predicate holds.
    pub fn store_global_8_if(&mut self, at: Global, values: [B32; 2], predicate: Pred) {
        self.line(format_args!("@{predicate} st.global.v2.b32 {at}, {{{}, {}}}", values[0], values[1]));
    }

    /// Stores 16 bytes where the predicate holds.
    pub fn store_global_16_if(&mut self, at: Global, values: [B32; 4], predicate: Pred) {
        let [a, b, c, d] = values;
        self.line(format_args!("@{predicate} st.global.v4.b32 {at}, {{{a}, {b}, {c}, {d}}}"));
    }

    /// Stores two floats where the predicate holds.
    pub fn store_global_f32x2_if(&mut self, at: Global, values: [F32; 2], predicate: Pred) {
        self.line(format_args!("@{predicate} st.global.v2.f32 {at}, {{{}, {}}}", values[0], values[1]));
    }

    /// Loads 8 bytes.
    pub fn load_shared_8(&mut self, at: Shared) -> [B32; 2] {
        let out = [self.b32(), self.b32()];
        self.line(format_args!("ld.shared.v2.b32 {{{}, {}}}, {at}", out[0], out[1]));
        out
    }

    /// Stores 8 bytes.
    pub fn store_shared_8(&mut self, at: Shared, values: [B32; 2]) {
        self.line(format_args!("st.shared.v2.b32 {at}, {{{}, {}}}", values[0], values[1]));
    }

    /// Loads a float.
    pub fn load_shared_f32(&mut self, at: Shared) -> F32 {
        let out = self.f32();
        self.line(format_args!("ld.shared.f32 {out}, {at}"));
        out
    }

    /// Stores a float.
    pub fn store_shared_f32(&mut self, at: Shared, value: F32) {
        self.line(format_args!("st.shared.f32 {at}, {value}"));
    }

    /// Loads 16 bytes.
    pub fn load_shared_16(&mut self, at: Shared) -> [B32; 4] {
        let out = [(); 4].map(|()| self.b32());
        let [a, b, c, d] = out;
        self.line(format_args!("ld.shared.v4.b32 {{{a}, {b}, {c}, {d}}}, {at}"));
        out
    }

    /// Stores 16 bytes.
    pub fn store_shared_16(&mut self, at: Shared, values: [B32; 4]) {
        let [a, b, c, d] = values;
        self.line(format_args!("st.shared.v4.b32 {at}, {{{a}, {b}, {c}, {d}}}"));
    }

    /// The address that `at` has in block `rank` of the cluster.
    pub fn of_block(&mut self, at: B32, rank: impl Into<super::Source>) -> B32 {
        let out = self.b32();
        self.line(format_args!("mapa.shared::cluster.u32 {out}, {at}, {}", rank.into()));
        out
    }

    /// Loads two or four neighbouring floats.
    pub fn load_shared_floats<const N: usize>(&mut self, at: Shared) -> [F32; N] {
        let out = [(); N].map(|()| self.f32());
        self.line(format_args!("ld.shared.v{N}.f32 {{{}}}, {at}", list(&out)));
        out
    }

    /// Stores two or four neighbouring floats in a block of the cluster.
    pub fn store_cluster_floats(&mut self, at: Shared, values: &[F32]) {
        self.line(format_args!("st.shared::cluster.v{}.f32 {at}, {{{}}}", values.len(), list(values)));
    }

    /// Raises a float in shared memory to `value`. For floats that are not negative.
    pub fn max_shared(&mut self, at: Shared, value: F32) {
        // Floats that are not negative order like their bits.
        let (old, bits) = (self.b32(), self.b32());
        self.line(format_args!("mov.b32 {bits}, {value}"));
        self.line(format_args!("atom.shared.max.u32 {old}, {at}, {bits}"));
    }
}

/// Registers as vector instructions name them.
fn list(registers: &[F32]) -> String {
    registers.iter().map(F32::to_string).collect::<Vec<_>>().join(", ")
}
