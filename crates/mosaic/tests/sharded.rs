//! Kernels under `shard_map` as JAX lowers them: the module has a mesh, its operands and results are whole.

mod support;

use octile_mosaic::{
    interpret::{Options, Outcome, Tensor, Trouble, mesh_devices, simulate},
    parse,
};
use support::{rates, tensors, text};

fn run(kernel: &str) -> (Outcome, Vec<Tensor>) {
    let module = parse(&text("sharded", kernel)).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let (mut operands, expected): (Vec<_>, Vec<_>) =
        tensors("sharded", kernel).into_iter().partition(|(name, _)| !name.starts_with("out"));
    operands.sort_by(|a, b| a.0.cmp(&b.0));
    let operands: Vec<Tensor> = operands.into_iter().map(|(_, tensor)| tensor).collect();
    let outcome = simulate(&module, &operands, &Options::new(rates()));
    let outcome = outcome.unwrap_or_else(|error| panic!("{kernel}: {error}"));
    (outcome, expected.into_iter().map(|(_, tensor)| tensor).collect())
}

fn troubles(kernel: &str) -> Vec<Trouble> {
    run(kernel).0.findings.into_iter().map(|finding| finding.trouble).collect()
}

#[test]
fn collectives_give_what_jax_gives() {
    for kernel in [
        "all_gather_ring",
        "all_reduce_sum",
        "mesh_2d_column_sum",
        "psum_around_kernel",
        "reduce_scatter_ring",
        "right_permute",
        "run_scoped_remote",
    ] {
        let (outcome, expected) = run(kernel);
        assert_eq!((outcome.findings, outcome.completed), (Vec::new(), true), "{kernel}");
        assert!(!expected.is_empty());
        for (ours, theirs) in outcome.outputs.iter().zip(&expected) {
            assert_eq!(ours.shape, theirs.shape, "{kernel}");
            for (index, (a, b)) in ours.to_f32().into_iter().zip(theirs.to_f32()).enumerate() {
                assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{kernel}: element {index} is {a}, not {b}");
            }
        }
    }
}

#[test]
fn the_mesh_gives_the_number_of_devices() {
    let devices = |kernel| mesh_devices(&parse(&text("sharded", kernel)).unwrap()).unwrap();
    assert_eq!(devices("all_gather_ring"), Some(4));
    assert_eq!(devices("mesh_2d_column_sum"), Some(4));
    assert_eq!(mesh_devices(&parse("module {}").unwrap()), Ok(None));
}

/// The lines of the Python source that a finding names.
fn python_lines(trouble: &Trouble) -> Vec<u32> {
    let sites = match trouble {
        Trouble::DeviceRace { copy, access, .. } => vec![copy, access],
        Trouble::OverwrittenDuringCopyOut { copy, write, .. } => vec![copy, write],
        Trouble::NoSuchDevice { access, .. } => vec![access],
        Trouble::DeviceDeadlock { waiting, .. } => waiting.iter().map(|waiter| &waiter.wait).collect(),
        _ => Vec::new(),
    };
    sites.iter().flat_map(|site| &site.source).map(|frame| frame.line).collect()
}

#[test]
fn broken_collectives_are_diagnosed_at_their_python_line() {
    let found = troubles("broken_device_out_of_mesh");
    assert!(
        found.iter().any(|trouble| matches!(trouble, Trouble::NoSuchDevice { device: 4, .. })
            && python_lines(trouble).contains(&22)),
        "{found:#?}"
    );
    let found = troubles("broken_missing_barrier");
    assert!(
        found
            .iter()
            .any(|trouble| matches!(trouble, Trouble::DeviceRace { .. })
                && python_lines(trouble).contains(&22)),
        "{found:#?}"
    );
    let found = troubles("broken_missing_wait_send");
    assert!(
        found.iter().any(|trouble| matches!(trouble, Trouble::OverwrittenDuringCopyOut { .. })
            && python_lines(trouble).contains(&28)),
        "{found:#?}"
    );
    let found = troubles("broken_no_capacity");
    assert!(
        found
            .iter()
            .any(|trouble| matches!(trouble, Trouble::DeviceRace { .. })
                && python_lines(trouble).contains(&31)),
        "{found:#?}"
    );
    let found = troubles("broken_wrong_neighbour");
    let deadlock = found.iter().find_map(|trouble| match trouble {
        Trouble::DeviceDeadlock { waiting, finished } => Some((waiting, finished, python_lines(trouble))),
        _ => None,
    });
    let Some((waiting, finished, lines)) = deadlock else { panic!("{found:#?}") };
    assert_eq!(waiting.iter().map(|waiter| waiter.wait.device).collect::<Vec<_>>(), [Some(0)]);
    assert_eq!((finished.as_slice(), lines.as_slice()), ([1, 2, 3].as_slice(), [24].as_slice()));
    assert!(found.iter().any(|trouble| matches!(trouble, Trouble::DeviceRace { .. })), "{found:#?}");
}
