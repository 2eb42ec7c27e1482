//! The sets of measurements: every file is right, every row is told, and threads change nothing.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use calibration::split;
use hw_models::collectives::{COLLECTIVE_SPREADS, COLLECTIVE_SPREADS_HEADER, CollectiveSpreads};
use reports::validation::{Row, SetResult, Unit, Validation};
use scenarios::run::Progress;
use scenarios::run::step_spreads::STEP_SPREADS;
use scenarios::validation::{Options, STATE, names, state, step_errors, title, tuned, validate};

struct Quiet;

impl Progress for Quiet {
    fn begin(&self, _: u64) {}
    fn done(&self) {}
}

struct Stopped;

impl Progress for Stopped {
    fn begin(&self, _: u64) {}
    fn done(&self) {}
    fn stop(&self) -> bool {
        true
    }
}

#[test]
fn every_set_has_a_title_and_a_protocol_and_its_tables_a_licence() {
    for name in names() {
        assert!(title(name).is_some_and(|title| title.len() > 10), "{name}");
    }
    assert_eq!(title("no-such-set"), None);
    for set in &found().sets {
        assert!(set.protocol.len() > 100, "{}", set.name);
        assert!(
            set.sources.iter().all(|source| source.contains("licen") || source.contains("quoted")),
            "{}",
            set.name
        );
        assert!(!set.parts.is_empty());
    }
}

/// Intervals of step times rest on these. `FORETRAIN_UPDATE=1 cargo test --release -p scenarios how_far_steps` renews them.
#[test]
fn how_far_steps_are_off_follows_from_their_sets() {
    let table = step_errors(found());
    if std::env::var_os("FORETRAIN_UPDATE").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/validation/step-spreads.csv");
        std::fs::write(file, table).expect("the table can be written");
        return;
    }
    let rows = |table: &str| table.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let (known, found) = (rows(STEP_SPREADS), rows(&table));
    assert_eq!(known.len(), found.len());
    for (known, found) in known.iter().zip(&found) {
        let (name, deviation) = known.rsplit_once(',').expect("cells");
        let (found_name, found_deviation) = found.rsplit_once(',').expect("cells");
        let [deviation, found_deviation]: [f64; 2] =
            [deviation, found_deviation].map(|text| text.parse().expect("a number"));
        assert_eq!(name, found_name);
        assert!((deviation - found_deviation).abs() < 0.005, "{known}, found {found}");
    }
}

/// `validate` ends with 1 where errors are worse than these. `FORETRAIN_UPDATE=1 cargo test
/// --release -p scenarios errors_are_as_committed` renews them.
#[test]
fn errors_are_as_committed() {
    if std::env::var_os("FORETRAIN_UPDATE").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/validation/state.csv");
        std::fs::write(file, state(&validated(names(), 3))).expect("the table can be written");
        return;
    }
    let of_largest = |line: &&str| line.starts_with("gemm,");
    let (found, committed) = (state(found()), STATE.lines().filter(|line| !of_largest(line)));
    assert_eq!(found.lines().collect::<Vec<_>>(), committed.collect::<Vec<_>>());
    let largest = STATE.lines().filter(of_largest).count();
    assert!(largest > 0);
}

#[test]
fn every_row_of_a_table_is_judged_or_left_out_with_a_reason() {
    let found = found();
    let of = |name: &str| found.sets.iter().find(|set| set.name == name).expect("it was asked for");
    let rows =
        |set: &SetResult| set.parts.iter().map(|part| part.rows.len() + part.left_out.len()).sum::<usize>();
    assert_eq!((rows(of("megatron")), rows(of("compilation"))), (12, 30));
    let left_out = found.sets.iter().flat_map(|set| &set.parts).flat_map(|part| &part.left_out);
    assert!(left_out.clone().all(
        |row| !row.reason.is_empty() && [".csv:", ".jsonl:"].iter().any(|kind| row.place.contains(kind))
    ));
    for part in found.sets.iter().flat_map(|set| &set.parts) {
        assert_eq!(part.statistics.rows, part.rows.len());
        for row in &part.rows {
            let is_figure = row.measured > 0.0 && row.predicted > 0.0 && row.error().is_finite();
            assert!(is_figure || row.unit == Unit::Verdict, "{}", row.place);
            let shares: f64 = row.shares.values().sum();
            assert!(row.shares.is_empty() || (shares - 1.0).abs() < 1e-9, "{}: {shares}", row.place);
        }
    }
}

#[test]
fn kernels_and_collectives_are_judged_on_a_quarter() {
    let found = found();
    let places: Vec<&str> = found
        .sets
        .iter()
        .filter(|set| set.name == "collectives")
        .flat_map(|set| set.parts.iter().filter(|part| part.name.starts_with("by table")))
        .flat_map(|part| &part.rows)
        .map(|row| row.place.as_str())
        .collect();
    assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), places.len(), "each row once");
    // Line 29 of vTrain's table, A100, 2, 8388608: the bytes `A100|2|8388608`.
    let row = |inputs: &[&str]| split::judges(split::hash(inputs));
    assert!(row(&["A100", "2", "8388608"]) && !row(&["A100", "2", "2097152"]));
}

/// Intervals of step times rest on these: of ten collectives on NVSwitch nine are within, in groups
/// of 2, 4 and 8. `FORETRAIN_UPDATE=1 cargo test --release -p scenarios spreads_of_collectives`
/// renews them.
#[test]
fn spreads_of_collectives_follow_from_what_was_held_out() {
    let collectives = found().sets.iter().find(|set| set.name == "collectives").expect("there is one");
    let row = |model: &str| {
        let by = format!("by {model}");
        let rows =
            collectives.parts.iter().filter(|part| part.name.starts_with(&by)).flat_map(|part| &part.rows);
        let others = ["allreduce_vtrain_odd.csv", "nccl2_p100_dgx1_tartan.csv"];
        let usual = rows.filter(|row| !others.iter().any(|table| row.place.starts_with(table)));
        let switched = usual.filter(|row| row.inputs.get("gpu").is_none_or(|gpu| gpu != "V100"));
        let mut errors: Vec<f64> = switched.map(|row| row.error().abs()).collect();
        errors.sort_by(f64::total_cmp);
        let ninth = errors[(0.9 * errors.len() as f64).ceil() as usize - 1];
        format!("{model},{},{ninth:.3}\n", errors.len())
    };
    let rows = ["table", "formula"].map(row).concat();
    let table = format!("{COLLECTIVE_SPREADS_HEADER}\n{rows}");
    if std::env::var_os("FORETRAIN_UPDATE").is_some() {
        let catalogue = concat!(env!("CARGO_MANIFEST_DIR"), "/../hw-models/catalogue/collective_spreads.csv");
        std::fs::write(catalogue, table).expect("the catalogue can be written");
        return;
    }
    let spreads = |table: &str| CollectiveSpreads::read(table).expect("it is as its first line says");
    let (known, found) = (spreads(COLLECTIVE_SPREADS), spreads(&table));
    for (known, found) in [(known.table, found.table), (known.formula, found.formula)] {
        assert!((found / known - 1.0).abs() < 0.1, "{found}, not {known}");
    }
}

#[test]
fn results_are_the_same_on_one_thread_and_on_several() {
    for set in &validated(["megatron", "nemo", "collectives"].into_iter(), 1).sets {
        assert!(found().sets.contains(set), "{}", set.name);
    }
}

#[test]
fn wrong_names_are_answered_together_each_with_a_suggestion() {
    let asked = ["megatorn", "gemm", "unheard-of"].map(str::to_owned);
    let wrong = validate(&asked, &options(None), &Quiet).expect_err("two names are wrong");
    assert_eq!(wrong.len(), 2);
    assert!(wrong[0].contains("`megatorn`") && wrong[0].contains("did you mean `megatron`?"), "{wrong:?}");
    assert!(wrong[1].contains("`unheard-of`") && wrong[1].contains("`vtrain-multi-node`"), "{wrong:?}");
}

/// What ran is said to fit on its real card, what ran out of memory is refused; every verdict says what memory it rests on.
#[test]
fn runs_fit_where_they_ran_and_not_where_they_ran_out() {
    let fits = found().sets.iter().find(|set| set.name == "fits").expect("there is one");
    let [ran, exhausted] = &fits.parts[..] else { panic!("two parts") };
    assert_eq!((ran.name.as_str(), exhausted.name.as_str()), ("ran", "out of memory"));
    assert!(ran.passed && ran.rows.len() > 240, "{:?}", ran.verdicts);
    assert!(exhausted.passed && exhausted.left_out.is_empty() && exhausted.rows.len() >= 16);
    for row in ran.rows.iter().chain(&exhausted.rows) {
        assert!(row.evidence.as_ref().is_some_and(|evidence| evidence.contains("B")), "{}", row.place);
        assert!(row.error() == 0.0 || row.explanation.is_some(), "{}: nobody looked why", row.place);
    }
    // Times of rows that are refused are judged all the same.
    let rows =
        |name: &str| found().sets.iter().find(|set| set.name == name).map(|set| set.parts[0].rows.len());
    assert_eq!(rows("nemo"), Some(9));
}

/// Picks are those of the predictions, over all rows of a table, whether or not they judge errors.
#[test]
fn a_pick_is_the_plan_that_is_predicted_fastest() {
    let of = |name: &str| found().sets.iter().find(|set| set.name == name).expect("it was asked for");
    for set in &found().sets {
        let Some(regret) = &set.regret else { continue };
        assert_eq!(regret.summary.is_some(), !regret.groups.is_empty(), "{}", set.name);
        assert!(regret.groups.is_sorted_by(|a, b| a.regret >= b.regret), "{}", set.name);
        for group in &regret.groups {
            assert!((4..=regret.largest_group).contains(&group.plans), "{}", group.picked.place);
            assert!(0.0 <= group.best_of_three && group.best_of_three <= group.regret);
            assert_eq!(group.regret == 0.0, group.picked.measured == group.best.measured);
            assert!(group.most_data_ranks.is_none_or(|regret| regret >= 0.0));
            assert!(group.kendall_tau.is_none_or(|tau| (-1.0..=1.0).contains(&tau)));
        }
    }
    // All rows of one set judge errors as well; of the other 31 of 732 do.
    let multi = of("vtrain-multi-node");
    for group in &multi.regret.as_ref().expect("it has groups").groups {
        let same = |row: &&Row| group.work.iter().all(|(column, cell)| row.inputs.get(column) == Some(cell));
        let rows: Vec<&Row> = multi.parts[0].rows.iter().filter(same).collect();
        assert_eq!(rows.len(), group.plans - group.unpredicted);
        let least = |time: fn(&Row) -> f64| rows.iter().copied().map(time).min_by(f64::total_cmp);
        assert_eq!(least(|row| row.predicted), group.picked.predicted);
        assert_eq!(least(|row| row.measured), Some(group.best.measured));
    }
    let single = of("vtrain-single-node");
    let plans: usize = single.regret.iter().flat_map(|regret| &regret.groups).map(|group| group.plans).sum();
    assert!(plans > 600 && single.parts[0].rows.len() == 31, "{plans}");
}

#[test]
fn what_is_stopped_gives_no_result() {
    let stopped = validate(&["megatron".to_owned()], &options(None), &Stopped).expect("the name is right");
    assert!(stopped.is_none());
}

/// One row whose plan counts, one of an older release, and two that scenarios cannot express.
#[test]
fn tuned_plans_stand_among_those_of_a_search() {
    let found = tuned(&[5, 13, 20, 24], &options(Some(2)), &Quiet).expect("nothing stopped it");
    let [older, counted] = &found.plans[..] else { panic!("two rows are expressed: {:?}", found.plans) };
    assert!(older.searched.is_none() && older.error().is_some_and(|error| error.abs() < 0.15), "{older:?}");
    let searched = counted.searched.as_ref().expect("it counts");
    assert!(searched.plans > 1000 && searched.simulated < searched.plans / 4, "{searched:?}");
    assert_eq!(searched.rank == Some(1), searched.term.is_none());
    assert!(searched.behind.is_some_and(|behind| (0.0..0.2).contains(&behind)), "{searched:?}");
    assert!(searched.best.contains_key("parallelism.tensor"));
    let reasons: Vec<&str> = found.left_out.iter().map(|row| row.reason.as_str()).collect();
    assert!(reasons[0].contains("Mamba") && reasons[1].contains("precision"), "{reasons:?}");
    assert!(tuned(&[], &options(Some(1)), &Stopped).is_none());
}

/// One constant from one row gives the other updates of states on drives, and steps on 2 to 10 drives, within 8 %; more than four drives
/// fill the expander.
#[test]
fn states_on_drives_follow_from_one_row() {
    let found = validate(&["storage".to_owned()], &options(Some(1)), &Quiet).unwrap().unwrap();
    let states = found.sets[0].parts.iter().find(|part| part.name == "states").unwrap();
    let of = |phase: &'static str| states.rows.iter().filter(move |row| row.inputs["phase"] == phase);
    assert_eq!((of("update").count(), of("step").count(), states.left_out.len()), (5, 7, 2));
    for row in of("update").chain(of("step")) {
        assert!((row.predicted / row.measured - 1.0).abs() < 0.08, "{row:?}");
    }
    let step = |drives: &str| {
        let mut steps = of("step").filter(|row| row.inputs["drives"] == drives);
        steps.next().unwrap().predicted
    };
    assert!(step("2") > 1.3 * step("4") && step("4") < 1.05 * step("10"));
}

/// Each model has three speed-ups, but for one that has no prediction.
#[test]
fn speed_ups_of_a_model_are_told_apart() {
    let set = found().sets.iter().find(|set| set.name == "compilation").expect("there is one");
    let [part] = &set.parts[..] else { panic!("one part") };
    let speedups = part.speedups.expect("all are speed-ups");
    assert_eq!((speedups.measured, speedups.chains, part.left_out.len()), (30, 10, 3));
    let ways: BTreeSet<&str> = part.rows.iter().map(|row| row.inputs["of"].as_str()).collect();
    assert_eq!(ways.into_iter().collect::<Vec<_>>(), ["aot_eager", "inductor", "inductor_no_cudagraphs"]);
    for graphs in part.rows.iter().filter(|row| row.inputs["of"] == "inductor") {
        let kernels = part
            .rows
            .iter()
            .find(|row| row.place == graphs.place && row.inputs["of"] == "inductor_no_cudagraphs");
        assert!(kernels.is_some_and(|kernels| kernels.predicted <= graphs.predicted), "{}", graphs.place);
    }
}

/// All but the largest set.
fn found() -> &'static Validation {
    static FOUND: LazyLock<Validation> =
        LazyLock::new(|| validated(names().filter(|name| *name != "gemm"), 3));
    &FOUND
}

fn validated<'a>(chosen: impl Iterator<Item = &'a str>, jobs: usize) -> Validation {
    let chosen: Vec<String> = chosen.map(str::to_owned).collect();
    validate(&chosen, &options(Some(jobs)), &Quiet).expect("the names are right").expect("nothing stopped it")
}

fn options(jobs: Option<usize>) -> Options {
    Options { jobs, version: "0.0.0".to_owned(), reproduce: String::new() }
}
