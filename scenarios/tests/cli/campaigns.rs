//! A training run with failures and prices: table, facts, page and JSON.

use super::support::{Sandbox, assert_session};

const FILE: &str = "
name: How often to write
machine: { node: dgx-a100-40g }
model: { transformer: { preset: gpt2-medium } }
training: { global_batch: 64, micro_batch: 8, sequence: 512, precision: bf16-mixed }
software: { attention: flash }
campaign:
  tokens: 300 B
  failures: { mean_time_between: { node: 200 h }, restart: 5 min, seeds: 50 }
  prices: { gpu_hour: { price: 1.5 USD, source: a contract, date: 2026-11-01 } }
variants:
  best:   { campaign: { checkpoints: { to: drives } } }
  behind: { campaign: { checkpoints: { to: drives, background: true } } }
  daily:  { campaign: { checkpoints: { every: 1 d, to: { storage: 2 GB/s } } } }
  never:  {}
";

#[test]
fn a_campaign_is_told_in_days_and_money() {
    let sandbox = Sandbox::new("campaign");
    sandbox.write("campaign.yaml", FILE);
    assert_session!("campaign", sandbox.session(&["run campaign.yaml", "check campaign.yaml"]));
    let page = sandbox.read("out/campaign/report.html");
    assert!(page.contains("What does training take?") && page.contains("nine of ten"));
    let found = sandbox.run("run campaign.yaml --format json").json();
    let best = &found["variants"][0]["campaign"];
    let goodput = best["goodput"].as_f64().expect("it ends");
    assert!((0.9..1.0).contains(&goodput), "{best}");
    assert_eq!(best["cost"]["parts"][0]["source"], "a contract");
}
