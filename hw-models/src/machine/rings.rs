//! The rings that a collective library lays over direct NVLinks, as NCCL's search for channels does (`src/graph/search.cc`):
//! as many as the links allow that no two of them share one.
//!
//! A link carries one ring in either direction. Members that are not in reach of each other in a closed round have none,
//! and go another way. In the cube mesh of eight V100, six links each, four members have four rings and all eight have six.

use super::{DirectedLink, Machine, PartId};

/// Steps after which a search ends with the rings found by then: machines that are sold need some hundreds.
const STEPS: u32 = 100_000;

/// Rings over direct links.
#[derive(Clone, Debug, PartialEq)]
pub struct Rings {
    /// Each a round of positions in the group; none where the members have no closed round.
    pub rounds: Vec<Vec<usize>>,
    /// What one member sends in all of them together while it receives as much (byte/s).
    pub bytes_per_s: f64,
}

impl Machine {
    /// The rings of GPUs of one node over the NVLinks between them; links to switches are none of these.
    pub fn rings(&self, gpus: &[PartId]) -> Rings {
        let between = |a: usize, b: usize| self.link_between(gpus[a], gpus[b]).map(|link| self.one_of(link));
        let n = gpus.len();
        let mut links = vec![vec![None; n]; n];
        for (a, row) in links.iter_mut().enumerate() {
            for link in self.links_from(gpus[a]) {
                let to = self.link(link).to;
                if let Some(b) = gpus.iter().position(|&gpu| gpu == to) {
                    row[b].get_or_insert(self.one_of(link).0);
                }
            }
        }
        let links = links.into_iter().map(|row| row.into_iter().map(Option::unwrap_or_default).collect());
        let rounds = directed(links.collect());
        let slowest = |round: &Vec<usize>| {
            let hops = round.iter().zip(round.iter().cycle().skip(1));
            hops.filter_map(|(&a, &b)| Some(between(a, b)?.1)).fold(f64::INFINITY, f64::min)
        };
        let bytes_per_s = rounds.iter().map(slowest).sum();
        Rings { rounds, bytes_per_s }
    }

    /// How many NVLinks a link stands for, and what one of them carries (byte/s).
    fn one_of(&self, link: DirectedLink) -> (u32, f64) {
        let link = self.link(link);
        (link.nvlinks, link.bytes_per_s / f64::from(link.nvlinks.max(1)))
    }
}

/// Rings of both directions: two members have one for each link between them, more have two for each round that is found.
fn directed(links: Vec<Vec<u32>>) -> Vec<Vec<usize>> {
    match links.len() {
        0 | 1 => Vec::new(),
        2 => vec![vec![0, 1]; links[0][1] as usize],
        members => {
            // Every round takes two links of a member.
            let most = links.iter().map(|row| row.iter().sum::<u32>() / 2).min().unwrap_or(0) as usize;
            let mut search =
                Search { links, most, path: vec![0], taken: Vec::new(), best: Vec::new(), steps: STEPS };
            search.go_on(members);
            let reversed = |round: &Vec<usize>| round.iter().rev().copied().collect();
            search.best.iter().flat_map(|round| [round.clone(), reversed(round)]).collect()
        }
    }
}

/// Depth-first, back where it is stuck.
struct Search {
    /// Links that no round has taken, between each two members.
    links: Vec<Vec<u32>>,
    /// No more rounds than this are possible.
    most: usize,
    /// The round under way.
    path: Vec<usize>,
    /// Rounds before it.
    taken: Vec<Vec<usize>>,
    /// The most rounds seen.
    best: Vec<Vec<usize>>,
    steps: u32,
}

impl Search {
    fn go_on(&mut self, members: usize) {
        if self.best.len() == self.most || self.steps == 0 {
            return;
        }
        self.steps -= 1;
        let last = self.path[self.path.len() - 1];
        if self.path.len() == members {
            if self.take(last, 0) {
                let round = std::mem::replace(&mut self.path, vec![0]);
                self.taken.push(round);
                if self.taken.len() > self.best.len() {
                    self.best.clone_from(&self.taken);
                }
                self.go_on(members);
                self.path = self.taken.pop().unwrap_or_default();
                self.give_back(last, 0);
            }
            return;
        }
        for next in 0..members {
            if !self.path.contains(&next) && self.take(last, next) {
                self.path.push(next);
                self.go_on(members);
                self.path.pop();
                self.give_back(last, next);
            }
        }
    }

    fn take(&mut self, a: usize, b: usize) -> bool {
        let free = self.links[a][b] > 0;
        if free {
            self.links[a][b] -= 1;
            self.links[b][a] -= 1;
        }
        free
    }

    fn give_back(&mut self, a: usize, b: usize) {
        self.links[a][b] += 1;
        self.links[b][a] += 1;
    }
}
