//! The rings that a collective library lays over direct NVLinks, as NCCL's search for channels does (`src/graph/search.cc`):
//! as many as the links allow that no two of them share one.
//!
//! A link carries one ring in either direction. In the cube mesh of eight V100, six links each,
//! four members have four rings and all eight have six.
//!
//! Members without a closed round have one where hops may lead over a third member, to whose memory
//! one writes and from which the next reads (`PATH_NVB` in NCCL's `src/graph/paths.cc`, since
//! 2.8.3): a fifth V100 has two links to one of the other four, and they have two rings over these.
//! NCCL tries such hops after direct ones and before PCI Express, and has no other rings for any
//! collective.

use super::{DirectedLink, Machine, PartId};

/// Steps after which a search ends with the rings found by then: machines that are sold need some hundreds.
const STEPS: u32 = 100_000;

/// Rings over direct links.
#[derive(Clone, Debug, PartialEq)]
pub struct Rings {
    /// Each a round of positions in the group, the last linked to the first; none where the members
    /// have no closed round. A member that passes on what others send is in a round several times.
    pub rounds: Vec<Vec<usize>>,
    /// What one member sends in all of them together while it receives as much (byte/s).
    pub bytes_per_s: f64,
}

impl Rings {
    /// True if hops between members of a group of this size lead over others.
    pub fn relayed(&self, members: usize) -> bool {
        self.rounds.iter().any(|round| round.len() > members)
    }
}

impl Machine {
    /// The rings of GPUs of one node over the NVLinks between them; links to switches are none of these.
    pub fn rings(&self, gpus: &[PartId]) -> Rings {
        let between = |a: usize, b: usize| self.link_between(gpus[a], gpus[b]).map(|link| self.one_of(link));
        let n = gpus.len();
        let mut links = vec![vec![0; n]; n];
        for (a, row) in links.iter_mut().enumerate() {
            for link in self.links_from(gpus[a]) {
                let to = self.link(link).to;
                if let Some(b) = gpus.iter().position(|&gpu| gpu == to) {
                    row[b] = self.one_of(link).0.max(row[b]);
                }
            }
        }
        let rounds = rounds(links);
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

/// Rings by the links between each two members: of two, one for each link; of more, both directions
/// of each direct round, or where there is none, the rounds that lead over third members.
fn rounds(links: Vec<Vec<u32>>) -> Vec<Vec<usize>> {
    match links.len() {
        0 | 1 => Vec::new(),
        2 => vec![vec![0, 1]; links[0][1] as usize],
        _ => {
            let direct = Search::direct(&links).found();
            if direct.is_empty() {
                return Search::relayed(links).found();
            }
            let reversed = |round: &Vec<usize>| round.iter().rev().copied().collect();
            direct.iter().flat_map(|round| [round.clone(), reversed(round)]).collect()
        }
    }
}

/// Depth-first, back where it is stuck.
struct Search {
    /// Links that no round has taken, from each member to each other.
    links: Vec<Vec<u32>>,
    /// The member over which a hop leads between two without a link.
    relays: Vec<Vec<Option<usize>>>,
    /// Taking links in both directions, for a round and its reverse.
    both_ways: bool,
    /// No more rounds than this are possible.
    most: usize,
    /// Members of the round under way.
    members: Vec<usize>,
    /// Its way, with those that pass on.
    path: Vec<usize>,
    /// Rounds before it.
    taken: Vec<Vec<usize>>,
    /// The most rounds seen.
    best: Vec<Vec<usize>>,
    steps: u32,
}

impl Search {
    /// Rounds over links alone, which take two of each member.
    fn direct(links: &[Vec<u32>]) -> Self {
        let relays = vec![vec![None; links.len()]; links.len()];
        Self { both_ways: true, ..Self::new(links.to_vec(), relays, 2) }
    }

    /// Rounds in which a hop between two without a link leads over the one with most links to both.
    fn relayed(links: Vec<Vec<u32>>) -> Self {
        let members = 0..links.len();
        let relay = |a: usize, b: usize| {
            let width = |over: usize| links[a][over].min(links[over][b]);
            let widest = members.clone().rev().max_by_key(|&over| width(over));
            widest.filter(|&over| links[a][b] == 0 && width(over) > 0)
        };
        let relays = members.clone().map(|a| members.clone().map(|b| relay(a, b)).collect()).collect();
        Self::new(links, relays, 1)
    }

    /// `per_round`: links of a member that every round takes, of those that lead away.
    fn new(links: Vec<Vec<u32>>, relays: Vec<Vec<Option<usize>>>, per_round: u32) -> Self {
        let most = links.iter().map(|row| row.iter().sum::<u32>() / per_round).min().unwrap_or(0) as usize;
        let (taken, best) = (Vec::new(), Vec::new());
        let (members, path) = (vec![0], vec![0]);
        Self { links, relays, both_ways: false, most, members, path, taken, best, steps: STEPS }
    }

    fn found(mut self) -> Vec<Vec<usize>> {
        self.go_on();
        self.best
    }

    fn go_on(&mut self) {
        if self.best.len() == self.most || self.steps == 0 {
            return;
        }
        self.steps -= 1;
        if self.members.len() == self.links.len() {
            if let Some(hops) = self.walk(0) {
                self.path.pop();
                let members = std::mem::replace(&mut self.members, vec![0]);
                let path = std::mem::replace(&mut self.path, vec![0]);
                self.taken.push(path);
                if self.taken.len() > self.best.len() {
                    self.best.clone_from(&self.taken);
                }
                self.go_on();
                self.members = members;
                self.path = self.taken.pop().unwrap_or_default();
                self.path.push(0);
                self.back(hops);
            }
            return;
        }
        for next in 0..self.links.len() {
            if !self.members.contains(&next)
                && let Some(hops) = self.walk(next)
            {
                self.members.push(next);
                self.go_on();
                self.members.pop();
                self.back(hops);
            }
        }
    }

    /// Goes on to a member and says how many links that took; none if one of them is not free.
    fn walk(&mut self, to: usize) -> Option<usize> {
        let stops = self.relays[self.end()][to].into_iter().chain([to]);
        let mut hops = 0;
        for stop in stops {
            if !self.take(stop) {
                self.back(hops);
                return None;
            }
            hops += 1;
        }
        Some(hops)
    }

    fn take(&mut self, to: usize) -> bool {
        let from = self.end();
        let free = self.links[from][to] > 0;
        if free {
            self.links[from][to] -= 1;
            self.links[to][from] -= u32::from(self.both_ways);
            self.path.push(to);
        }
        free
    }

    fn back(&mut self, hops: usize) {
        for _ in 0..hops {
            let to = self.end();
            self.path.pop();
            let from = self.end();
            self.links[from][to] += 1;
            self.links[to][from] += u32::from(self.both_ways);
        }
    }

    fn end(&self) -> usize {
        self.path[self.path.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GPUs 0 to 7 of a DGX-1 with V100 and the links between them.
    const MESH: [(usize, usize, u32); 16] = [
        (0, 1, 1),
        (0, 2, 1),
        (0, 3, 2),
        (0, 4, 2),
        (1, 2, 2),
        (1, 3, 1),
        (1, 5, 2),
        (2, 3, 2),
        (2, 6, 1),
        (3, 7, 1),
        (4, 5, 1),
        (4, 6, 1),
        (4, 7, 2),
        (5, 6, 2),
        (5, 7, 1),
        (6, 7, 2),
    ];

    /// Links between members of a group, with one more between two GPUs.
    fn links(group: &[usize], more: Option<(usize, usize)>) -> Vec<Vec<u32>> {
        let mut links = vec![vec![0; group.len()]; group.len()];
        for (a, b, count) in MESH.into_iter().chain(more.map(|(a, b)| (a, b, 1))) {
            let at = |gpu| group.iter().position(|&member| member == gpu);
            if let (Some(a), Some(b)) = (at(a), at(b)) {
                links[a][b] += count;
                links[b][a] += count;
            }
        }
        links
    }

    /// All groups of two GPUs and more.
    fn groups() -> impl Iterator<Item = Vec<usize>> {
        (0_u32..256)
            .map(|set| (0..8).filter(|gpu| set >> gpu & 1 == 1).collect())
            .filter(|g: &Vec<_>| g.len() > 1)
    }

    fn hang_together(links: &[Vec<u32>]) -> bool {
        let mut reached = vec![0];
        let mut at = 0;
        while let Some(&from) = reached.get(at) {
            let new = (0..links.len()).filter(|&to| links[from][to] > 0 && !reached.contains(&to));
            reached.extend(new.collect::<Vec<_>>());
            at += 1;
        }
        reached.len() == links.len()
    }

    /// NCCL 2.14 finds two rings as well: GPU 4 has two links to GPU 0 and none to the other three.
    #[test]
    fn a_fifth_member_is_reached_over_its_neighbour() {
        let five = [[0, 1, 2, 3, 0, 4], [0, 2, 1, 3, 0, 4]];
        assert_eq!(rounds(links(&[0, 1, 2, 3, 4], None)), five);
        // GPU 7 has one link to GPU 3, which carries one ring.
        assert_eq!(rounds(links(&[0, 1, 2, 3, 7], None)).len(), 1);
    }

    #[test]
    fn groups_that_hang_together_have_rings_that_share_no_link() {
        let mut first = Vec::new();
        for group in groups() {
            let mut free = links(&group, None);
            let rounds = rounds(free.clone());
            assert_eq!(rounds.is_empty(), !hang_together(&free), "{group:?}: {rounds:?}");
            for round in &rounds {
                assert!((0..group.len()).all(|member| round.contains(&member)), "{group:?}: {round:?}");
                for (&from, &to) in round.iter().zip(round.iter().cycle().skip(1)) {
                    assert!(free[from][to] > 0, "{group:?}: {rounds:?} at {from} to {to}");
                    free[from][to] -= 1;
                }
            }
            if group.iter().copied().eq(0..group.len()) {
                first.push(rounds.len());
            }
        }
        // Large all-reduces of vTrain on 2, 3, 4, 6, 7 and 8 V100 run at so many times a link's rate.
        assert_eq!(first, [1, 2, 4, 2, 2, 4, 6]);
    }

    #[test]
    fn another_link_takes_no_ring_away() {
        for group in groups() {
            let before = rounds(links(&group, None)).len();
            for (a, b) in
                group.iter().flat_map(|&a| group.iter().map(move |&b| (a, b))).filter(|(a, b)| a < b)
            {
                let after = rounds(links(&group, Some((a, b)))).len();
                assert!(after >= before, "{group:?}: {before} rings, {after} with a link from {a} to {b}");
            }
        }
    }

    #[test]
    fn searches_end_long_before_their_limit() {
        for group in groups() {
            let links = links(&group, None);
            let mut search = Search::direct(&links);
            search.go_on();
            if search.best.is_empty() {
                assert!(search.steps > 0, "{group:?}");
                search = Search::relayed(links);
                search.go_on();
            }
            assert!(search.steps > 0, "{group:?}");
        }
    }
}
