//! Which ISA multiplies what on this machine: by rates that are known for its design, or else measured when
//! they are first needed.

use std::{fmt, sync::OnceLock, time::Duration};

use octile_core::{
    FloatKind, Mat, MatMut, QuantBlock, QuantizedActivation, QuantizedWeight, ScaleGranularity, Strategy,
    device::cpu::{CpuId, CpuRates, Isa, IsaDispatch, IsaRates, Microarchitecture, SAMPLED_ROWS},
};

use super::{Activation, Cpu, PackedWeight, Workspace, available};

/// Environment variable that names an ISA for all problems of the process.
pub(super) const ISA_VARIABLE: &str = "OCTILE_ISA";

/// Where the choice of ISAs comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatchSource {
    /// One that was named for all problems.
    Named,
    /// There is no choice.
    OnlyOne,
    /// Rates that were measured on this design.
    Known(Microarchitecture),
    /// Rates measured by this process.
    Measured,
}

impl fmt::Display for DispatchSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named => f.write_str("one is named for all problems"),
            Self::OnlyOne => f.write_str("one is worth using"),
            Self::Known(design) => write!(f, "rates known for {design}"),
            Self::Measured => f.write_str("rates measured now"),
        }
    }
}

/// The choice of ISAs on this machine, and where it comes from.
///
/// Where rates have to be measured, the first call takes some milliseconds.
pub fn of_machine() -> (&'static IsaDispatch, DispatchSource) {
    static DISPATCH: OnceLock<(IsaDispatch, DispatchSource)> = OnceLock::new();
    // Measured outside the lock: a process that forks meanwhile leaves a child that could wait for ever.
    let (dispatch, source) = match DISPATCH.get() {
        Some(known) => known,
        None => {
            let chosen = choose(&available(), design());
            DISPATCH.get_or_init(|| chosen)
        }
    };
    (dispatch, *source)
}

fn choose(available: &[Isa], design: Option<Microarchitecture>) -> (IsaDispatch, DispatchSource) {
    // Portable code serves where there is nothing else.
    let candidates = match available {
        [Isa::Portable, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    if let [only] = candidates {
        return (IsaDispatch::only(*only), DispatchSource::OnlyOne);
    }
    let known = design.and_then(|design| {
        let dispatch = IsaDispatch::fastest(&design.rates()?, candidates)?;
        Some((dispatch, DispatchSource::Known(design)))
    });
    known.unwrap_or_else(|| {
        let dispatch = IsaDispatch::fastest(&measure(candidates), candidates);
        (dispatch.unwrap_or_else(|| IsaDispatch::only(Isa::Portable)), DispatchSource::Measured)
    })
}

/// The design of this machine's CPU, if it is known.
pub(super) fn design() -> Option<Microarchitecture> {
    // A virtual machine takes microseconds for the CPUID instruction.
    static DESIGN: OnceLock<Option<Microarchitecture>> = OnceLock::new();
    *DESIGN.get_or_init(|| cpu_id().and_then(|id| id.microarchitecture()))
}

/// What the CPUID instruction says about this machine; `None` on other architectures.
pub fn cpu_id() -> Option<CpuId> {
    #[cfg(target_arch = "x86_64")]
    {
        use super::cpuid::cpuid;
        let vendor = cpuid(0, 0);
        let bytes: Vec<u8> =
            [vendor.ebx, vendor.edx, vendor.ecx].into_iter().flat_map(u32::to_le_bytes).collect();
        Some(CpuId::new(String::from_utf8_lossy(&bytes).into_owned(), cpuid(1, 0).eax))
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The weight that rates are measured with: large enough for a typical loop, small enough to stay in a core's
/// cache.
const MEASURED_WEIGHT: [usize; 2] = [128, 1024];
/// Rounds of measurements, of which the best counts, and the time after which no further one begins.
const ROUNDS: std::ops::RangeInclusive<usize> = 2..=5;
const PATIENCE: Duration = Duration::from_millis(5);

/// Time that this thread has run. On a busy machine it may wait for a core at any moment, which must not
/// count.
fn thread_time() -> Duration {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes one time.
        if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) } == 0 {
            return Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
        }
    }
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

/// Measures these ISAs on the calling thread.
pub fn measure(isas: &[Isa]) -> CpuRates {
    let [n, k] = MEASURED_WEIGHT;
    let codes: Vec<u8> = (0..n * k).map(|at| (at % 126 + 1) as u8).collect();
    let scales = vec![1.0; QuantBlock::B128.count(n) * QuantBlock::B128.count(k)];
    let codes = Mat::new(&codes, n, k).expect("codes of this shape");
    let weight =
        QuantizedWeight::from_parts(codes, &scales, QuantBlock::B128).expect("finite codes and scales");
    let packed = PackedWeight::new(&weight);
    let rates = |operand: FloatKind| {
        let mut contenders: Vec<Contender<'_>> = isas
            .iter()
            .filter(|isa| isa.is_candidate(operand))
            .filter_map(|&isa| Contender::new(isa, operand, &packed))
            .collect();
        let start = thread_time();
        for round in 0..*ROUNDS.end() {
            if round >= *ROUNDS.start() && thread_time() - start > PATIENCE {
                break;
            }
            contenders.iter_mut().for_each(Contender::run);
        }
        contenders.iter().map(Contender::rates).collect()
    };
    CpuRates { bf16: rates(FloatKind::Bf16), f32: rates(FloatKind::F32) }
}

/// One ISA that is measured.
struct Contender<'a> {
    isa: Isa,
    cpu: Cpu,
    weight: &'a PackedWeight,
    /// By sampled rows.
    x: Vec<SampledX>,
    workspaces: Vec<Workspace>,
    out: Vec<f32>,
    best: [Duration; SAMPLED_ROWS.len()],
}

enum SampledX {
    Fp8(QuantizedActivation),
    F32(Vec<f32>),
}

impl<'a> Contender<'a> {
    fn new(isa: Isa, operand: FloatKind, weight: &'a PackedWeight) -> Option<Self> {
        let [n, k] = MEASURED_WEIGHT;
        let x = |rows: usize| {
            let x: Vec<f32> = (0..rows * k).map(|at| (at % 15 + 1) as f32).collect();
            if operand == FloatKind::F32 {
                return Some(SampledX::F32(x));
            }
            let x = Mat::new(&x, rows, k).ok()?;
            QuantizedActivation::quantize(x, QuantBlock::B128, ScaleGranularity::Token)
                .ok()
                .map(SampledX::Fp8)
        };
        Some(Self {
            isa,
            cpu: Cpu::builder().isa(isa).threads(1).build().ok()?,
            weight,
            x: SAMPLED_ROWS.into_iter().map(x).collect::<Option<_>>()?,
            workspaces: SAMPLED_ROWS.map(|_| Workspace::new()).into(),
            out: vec![0.0; SAMPLED_ROWS[SAMPLED_ROWS.len() - 1] * n],
            best: [Duration::MAX; SAMPLED_ROWS.len()],
        })
    }

    /// Multiplies once with every sampled number of rows.
    fn run(&mut self) {
        let [n, k] = MEASURED_WEIGHT;
        for (at, rows) in SAMPLED_ROWS.into_iter().enumerate() {
            let x: Activation<'_> = match &self.x[at] {
                SampledX::Fp8(x) => x.into(),
                SampledX::F32(x) => Activation::Plain(Mat::new(x, rows, k).expect("x of this shape").into()),
            };
            let out = MatMut::new(&mut self.out[..rows * n], rows, n).expect("an output of this shape");
            let start = thread_time();
            let done = self.cpu.multiply(Strategy::Strip, x, self.weight, out, &mut self.workspaces[at]);
            if done.is_ok() {
                self.best[at] = self.best[at].min(thread_time() - start);
            }
        }
    }

    fn rates(&self) -> IsaRates {
        let [n, k] = MEASURED_WEIGHT;
        let mut gflops = [0.0; SAMPLED_ROWS.len()];
        for ((gflops, rows), best) in gflops.iter_mut().zip(SAMPLED_ROWS).zip(self.best) {
            // A clock may be too coarse for the shortest.
            *gflops = (2 * rows * n * k) as f64 / best.as_nanos().max(1) as f64;
        }
        IsaRates { isa: self.isa, gflops }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_isa_of_this_machine_can_be_measured() {
        let isas = available();
        let rates = measure(&isas);
        assert_eq!(rates.bf16.iter().map(|rates| rates.isa).collect::<Vec<_>>(), isas);
        assert!(rates.bf16.iter().chain(&rates.f32).flat_map(|rates| rates.gflops).all(|rate| rate > 0.0));
        let dispatch = IsaDispatch::fastest(&rates, &isas).unwrap();
        for range in dispatch.ranges(FloatKind::Bf16) {
            assert!(isas.contains(&range.isa), "{range:?}");
        }
        // Checks of pointers and overflows cost more than the instructions save.
        if isas.len() > 1 && !cfg!(debug_assertions) {
            assert!(!dispatch.to_string().contains("portable"), "{dispatch}");
        }
    }

    #[test]
    fn only_what_is_available_is_chosen() {
        let (portable, source) = choose(&[Isa::Portable], None);
        assert_eq!((portable, source), (IsaDispatch::only(Isa::Portable), DispatchSource::OnlyOne));
        let two = [Isa::Portable, Isa::Avx2];
        assert_eq!(choose(&two, Some(Microarchitecture::SapphireRapids)).1, DispatchSource::OnlyOne);
        let without_amx = choose(&Isa::ALL[..4], Some(Microarchitecture::SapphireRapids));
        assert_eq!(without_amx.1, DispatchSource::Known(Microarchitecture::SapphireRapids));
        assert!(!without_amx.0.to_string().contains("amx"), "{}", without_amx.0);
    }

    #[test]
    fn the_choice_is_made_once() {
        assert!(std::ptr::eq(of_machine().0, of_machine().0));
        let (chosen, _) = of_machine();
        let problem = "16x256x512:128".parse().unwrap();
        assert!(available().contains(&chosen.isa_for(&problem)));
    }
}
