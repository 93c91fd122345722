//! Programs around kernels: StableHLO as JAX prints it, with what JAX computes from the same operands.

mod support;

use octile_mosaic::{
    interpret::{Element, Options, Outcome, Tensor, embedded_kernels, simulate},
    parse,
};
use support::{floats, folder, rates, tensors, text};

fn programs() -> Vec<String> {
    let files = std::fs::read_dir(folder("around")).expect("the folder of programs is there");
    let mut names: Vec<String> = files
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "mlir"))
        .map(|path| path.file_stem().expect("a file has a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Values of a tensor of the given type as f64; the files store narrow floats as f32.
fn values(tensor: &Tensor) -> Vec<f64> {
    match tensor.element {
        Element::Integer(8) => {
            tensor.bytes.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b) as f64).collect()
        }
        _ => tensor.to_f32().into_iter().map(f64::from).collect(),
    }
}

fn compare(program: &str, outcome: &Outcome, expected: &[Tensor]) {
    assert_eq!(outcome.outputs.len(), expected.len(), "{program}");
    for (number, (ours, theirs)) in outcome.outputs.iter().zip(expected).enumerate() {
        assert_eq!(ours.shape, theirs.shape, "{program}: result {number}");
        for (index, (a, b)) in values(ours).into_iter().zip(values(theirs)).enumerate() {
            let alike = (a - b).abs() <= 4e-6 * (1.0 + b.abs()) || a == b || a.is_nan() && b.is_nan();
            assert!(alike, "{program}: element {index} of result {number} is {a}, expected {b}");
        }
    }
}

#[test]
fn programs_compute_what_jax_computes() {
    let programs = programs();
    assert_eq!(programs.len(), 34);
    for program in programs {
        let module = parse(&text("around", &program)).unwrap_or_else(|error| panic!("{program}: {error}"));
        let set = program.trim_end_matches(".generic");
        let (operands, expected): (Vec<_>, Vec<_>) =
            tensors("around", set).into_iter().partition(|(name, _)| name.starts_with('a'));
        let [operands, expected] = [operands, expected].map(|mut tensors| {
            tensors.sort_by(|a, b| a.0.cmp(&b.0));
            tensors.into_iter().map(|(_, tensor)| tensor).collect::<Vec<_>>()
        });
        let outcome = simulate(&module, &operands, &Options::new(rates()));
        let outcome = outcome.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(outcome.completed && outcome.kernels.is_empty(), "{program}");
        compare(&program, &outcome, &expected);
    }
}

#[test]
fn programs_print_as_they_were_read() {
    for program in programs() {
        let printed = parse(&text("around", &program)).expect("the program parses").to_string();
        let again = parse(&printed).unwrap_or_else(|error| panic!("{program}: {error}")).to_string();
        assert_eq!(again, printed, "{program}");
    }
}

/// A kernel that adds one to its operand, as text in base64.
fn kernel(offset: f32) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let near = "memref<8x128xf32, #tpu.memory_space<vmem>>";
    STANDARD.encode(format!(
        "module {{\n  func.func @k(%x: {near}, %out: {near}) \
         attributes {{window_params = [{{}}, {{}}]}} {{\n    \
         %c0 = arith.constant 0 : index\n    \
         %one = arith.constant dense<{offset:?}> : vector<8x128xf32>\n    \
         %v = vector.load %x[%c0, %c0] : {near}, vector<8x128xf32>\n    \
         %s = arith.addf %v, %one : vector<8x128xf32>\n    \
         tpu.vector_store %out[%c0, %c0], %s {{strides = array<i32>}} : {near}, vector<8x128xf32>,\n    \
         return\n  }}\n}}\n"
    ))
}

/// A custom call of such a kernel.
fn call(offset: f32, operand: &str, more: &str) -> String {
    format!(
        "stablehlo.custom_call @tpu_custom_call({operand}) \
         {{backend_config = \"{{\\22custom_call_config\\22: {{\\22body\\22: \\22{}\\22}}}}\", \
         kernel_name = \"add\"{more}}} : (tensor<8x128xf32>) -> tensor<8x128xf32>",
        kernel(offset)
    )
}

fn run(body: &str, results: &str) -> Result<Outcome, String> {
    let text = format!("func.func public @main(%x: tensor<8x128xf32>) -> ({results}) {{\n{body}\n}}\n");
    let module = parse(&text).map_err(|error| error.to_string())?;
    let x = floats(&[8, 128], |i| i as f32);
    simulate(&module, &[x], &Options::new(rates())).map_err(|error| error.to_string())
}

const TENSOR: &str = "tensor<8x128xf32>";

#[test]
fn every_kernel_of_a_module_runs_and_has_a_name_of_its_own() {
    let (first, second) = (call(1.0, "%x", ""), call(2.0, "%a", ""));
    let body = format!("%a = {first}\n%b = {second}\nreturn %b : {TENSOR}");
    let outcome = run(&body, TENSOR).unwrap();
    assert_eq!(outcome.outputs[0].to_f32()[5], 8.0);
    let names: Vec<&str> = outcome.kernels.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["add", "add#2"]);
    let [a, b] = &outcome.kernels[..] else { panic!("two kernels") };
    assert!(a.completed && b.completed && a.figures.cycles > 0.0);
    assert_eq!((a.start, b.start), (0.0, a.figures.cycles));
    assert_eq!(outcome.timeline.figures.cycles, a.figures.cycles + b.figures.cycles);

    let text = format!("func.func public @main(%x: {TENSOR}) -> {TENSOR} {{\n{body}\n}}\n");
    let kernels = embedded_kernels(&parse(&text).unwrap()).unwrap();
    assert_eq!(kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(), names);
    for kernel in &kernels {
        assert_eq!((kernel.operands.len(), kernel.results.len()), (1, 1));
        let x = floats(&[8, 128], |_| 1.0);
        assert!(simulate(&kernel.module, &[x], &Options::new(rates())).unwrap().completed);
        let place = kernel.module.functions[0].body.ops[0].place.expect("operations have positions");
        assert!(kernel.text.lines().nth(place.line as usize - 1).unwrap().contains("arith.constant"));
    }
}

#[test]
fn a_kernel_runs_in_a_loop_and_in_a_called_function() {
    let body = format!(
        "%zero = stablehlo.constant dense<0> : tensor<i32>\n%n = stablehlo.constant dense<3> : tensor<i32>\n\
         %one = stablehlo.constant dense<1> : tensor<i32>\n\
         %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, {TENSOR}\n cond {{\n\
         %c = stablehlo.compare  LT, %i, %n,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n\
         stablehlo.return %c : tensor<i1>\n}} do {{\n%w = {}\n%j = stablehlo.add %i, %one : tensor<i32>\n\
         stablehlo.return %j, %w : tensor<i32>, {TENSOR}\n}}\nreturn %r#1 : {TENSOR}",
        call(1.0, "%v", "")
    );
    let outcome = run(&body, TENSOR).unwrap();
    assert_eq!((outcome.outputs[0].to_f32()[0], outcome.kernels.len()), (3.0, 3));
}

#[test]
fn a_result_may_share_the_memory_of_an_operand() {
    let alias = |operand: usize| {
        format!(
            ", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], \
             operand_index = {operand}, operand_tuple_indices = []>]"
        )
    };
    let body =
        |operand| format!("%a = {}\nreturn %x, %a : {TENSOR}, {TENSOR}", call(1.0, "%x", &alias(operand)));
    let both = format!("{TENSOR}, {TENSOR}");
    let outcome = run(&body(0), &both).unwrap();
    // The operand outside of the kernel keeps its value.
    assert_eq!((outcome.outputs[0].to_f32()[7], outcome.outputs[1].to_f32()[7]), (7.0, 8.0));
    assert!(run(&body(3), &both).unwrap_err().contains("cannot share memory with operand 3"));
}

#[test]
fn an_unsupported_operation_matters_only_where_its_result_is_needed() {
    let odd = format!("%odd = \"stablehlo.cholesky\"(%x) : ({TENSOR}) -> {TENSOR}");
    let unused = format!("{odd}\n%a = {}\nreturn %a : {TENSOR}", call(1.0, "%x", ""));
    assert_eq!(run(&unused, TENSOR).unwrap().outputs[0].to_f32()[0], 1.0);

    let needed = format!(
        "{odd}\n%n = stablehlo.negate %odd : {TENSOR}\n%a = {}\nreturn %a : {TENSOR}",
        call(1.0, "%n", "")
    );
    let message = run(&needed, TENSOR).unwrap_err();
    assert!(
        message.contains("2:1: stablehlo.cholesky") && message.contains("kernel 'add' needs"),
        "{message}"
    );

    let returned = format!("{odd}\n%a = {}\nreturn %a, %odd : {TENSOR}, {TENSOR}", call(1.0, "%x", ""));
    let outcome = run(&returned, &format!("{TENSOR}, {TENSOR}")).unwrap();
    assert_eq!(outcome.outputs[0].to_f32()[0], 1.0);
    assert!(outcome.outputs[1].to_f32().iter().all(|value| value.is_nan()));
    let message = &outcome.notes[0].message;
    assert!(message.starts_with("result 1 is unknown: 2:1: stablehlo.cholesky"), "{message}");

    let alone = format!("{odd}\nreturn %odd : {TENSOR}");
    assert!(run(&alone, TENSOR).unwrap_err().contains("stablehlo.cholesky"));
}

#[test]
fn annotations_for_the_compiler_change_nothing() {
    let body = format!(
        "%a = stablehlo.custom_call @Sharding(%x) \
         {{mhlo.sharding = \"{{replicated}}\"}} : ({TENSOR}) -> {TENSOR}\n\
         %b = sdy.sharding_constraint %a <@mesh, [{{}}, {{}}]> : {TENSOR}\nreturn %b : {TENSOR}"
    );
    assert_eq!(run(&body, TENSOR).unwrap().outputs[0].to_f32()[9], 9.0);
}

#[test]
fn integer_division_by_zero_is_defined() {
    let body = "%z = stablehlo.constant dense<0> : tensor<2xi32>\n\
         %a = stablehlo.constant dense<[7, -7]> : tensor<2xi32>\n\
         %q = stablehlo.divide %a, %z : tensor<2xi32>\n%r = stablehlo.remainder %a, %z : tensor<2xi32>\n\
         return %q, %r : tensor<2xi32>, tensor<2xi32>";
    let outcome = run(body, "tensor<2xi32>, tensor<2xi32>").unwrap();
    assert_eq!(outcome.outputs[0].to_f32(), [-1.0, -1.0]);
    assert_eq!(outcome.outputs[1].to_f32(), [7.0, -7.0]);
}

#[test]
fn damaged_programs_are_refused_or_run_but_do_not_panic() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for program in programs() {
        let sound = text("around", &program);
        for _ in 0..20 {
            let mut bytes = sound.clone().into_bytes();
            let digits: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i].is_ascii_digit()).collect();
            bytes[digits[random(digits.len())]] = b'0' + random(10) as u8;
            let Ok(module) = parse(&String::from_utf8(bytes).expect("digits are ASCII")) else { continue };
            let Some(main) = module.function("main") else { continue };
            let operand = |&value| {
                let ty = main.ty(value);
                let element = Element::of(ty)?;
                let elements: usize = ty.shape().iter().product();
                let bytes = vec![1; elements.min(1 << 16) * element.bytes()].into();
                Some(Tensor { element, shape: ty.shape().to_vec(), bytes })
            };
            let Some(operands) = main.body.arguments.iter().map(operand).collect::<Option<Vec<_>>>() else {
                continue;
            };
            let options = Options { max_operations: 1 << 18, ..Options::new(rates()) };
            let _ = simulate(&module, &operands, &options);
        }
    }
}
