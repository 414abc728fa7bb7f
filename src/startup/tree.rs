//! Spans as a tree.

use std::collections::{HashMap, HashSet};

use crate::waterfall::Entry;

/// Which of some entries stands above which, by their indices.
pub struct Tree {
    /// In the order of their starts.
    pub roots: Vec<usize>,
    children: Vec<Vec<usize>>,
    parents: Vec<Option<usize>>,
}

impl Tree {
    /// Of all the `entries`. Those beneath one come in the order of their `place`s.
    pub fn new<Place: Ord>(entries: &[&Entry], place: impl Fn(&Entry) -> Place) -> Self {
        let mut parents = parents(entries);
        cut_circles(&mut parents);
        let mut roots = Vec::new();
        let mut children = vec![Vec::new(); entries.len()];
        for (index, parent) in parents.iter().enumerate() {
            match parent.and_then(|parent| children.get_mut(parent)) {
                Some(siblings) => siblings.push(index),
                None => roots.push(index),
            }
        }
        roots.sort_by_key(|index| entries.get(*index).map(|entry| entry.start_ns));
        for siblings in &mut children {
            siblings.sort_by_key(|index| entries.get(*index).map(|entry| place(entry)));
        }
        Self { roots, children, parents }
    }

    pub fn children(&self, index: usize) -> &[usize] {
        self.children.get(index).map_or(&[], Vec::as_slice)
    }

    pub fn parent(&self, index: usize) -> Option<usize> {
        self.parents.get(index).copied().flatten()
    }
}

fn parents(entries: &[&Entry]) -> Vec<Option<usize>> {
    let mut by_id = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        by_id.entry(entry.id).or_insert(index);
    }
    entries.iter().map(|entry| by_id.get(&entry.parent?).copied()).collect()
}

/// A file may hold spans that stand above themselves: one of each circle becomes a root.
fn cut_circles(parents: &mut [Option<usize>]) {
    let mut below_a_root = HashSet::new();
    for index in 0..parents.len() {
        let mut way = HashSet::new();
        let mut at = index;
        while !below_a_root.contains(&at) {
            if !way.insert(at) {
                parents.get_mut(at).into_iter().for_each(|parent| *parent = None);
                break;
            }
            match parents.get(at).copied().flatten() {
                Some(parent) => at = parent,
                None => break,
            }
        }
        below_a_root.extend(way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_cut_and_what_hangs_from_it_stays_beneath() {
        // 1 and 2 stand above each other, 3 above itself; 0 stands beneath 1, and 4 beneath 0.
        let parents = [1, 2, 1, 3, 0];
        let entries: Vec<_> = (0..)
            .zip(parents)
            .map(|(id, parent)| Entry { id, parent: Some(parent), ..Entry::default() })
            .collect();
        let tree = Tree::new(&entries.iter().collect::<Vec<_>>(), |entry| entry.id);
        assert_eq!(tree.roots, [1, 3]);
        assert_eq!(tree.children(1), [0, 2]);
        assert_eq!((tree.children(0), tree.parent(4)), (&[4][..], Some(0)));
        assert_eq!([2, 3, 4].map(|index| tree.children(index).len()), [0; 3]);
    }
}
