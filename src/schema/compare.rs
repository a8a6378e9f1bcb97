//! Compares two contracts type by type, and types without a name where they stand.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::build::schema::Selection;
use super::diff::{Change, Meaning};
use super::forms::{Defs, arms, enumeration, fields, opened, reference, resolve, tag};
use super::say::{ANYTHING, short};
use super::used::Used;

/// Two contracts, and what is used of them.
pub(super) struct Comparison<'a> {
    pub(super) old: &'a Defs,
    pub(super) new: &'a Defs,
    pub(super) before: Used,
    pub(super) after: Used,
    pub(super) selection: &'a Selection,
    /// Places whose words are told elsewhere.
    pub(super) watched: &'a BTreeSet<String>,
}

/// Where a comparison is: the type, the field in it, and how the type is used.
#[derive(Clone)]
struct Place<'a> {
    at: String,
    /// T3 sends it to us.
    read: bool,
    /// We send it.
    sent: bool,
    /// The fields that we fill of it, if not all.
    filled: Option<&'a [String]>,
}

impl Place<'_> {
    fn inside(&self, step: &str) -> Self {
        Self {
            at: format!("{}{step}", self.at),
            filled: None,
            ..self.clone()
        }
    }

    /// What a loss or another type means here.
    fn touched(&self) -> Meaning {
        if self.read || self.sent {
            Meaning::Breaks
        } else {
            Meaning::Harmless
        }
    }
}

struct Walk<'a, 'c> {
    all: &'c Comparison<'a>,
    changes: Vec<Change>,
    /// Pairs that are being compared: types may hold themselves.
    open: BTreeSet<(usize, usize)>,
    /// Members of unions, by name: their tag is the union's.
    tags: BTreeMap<&'a str, &'a str>,
    /// Enums whose words are told elsewhere.
    told: BTreeSet<&'a str>,
}

impl<'a> Comparison<'a> {
    /// Every change besides those of the watched words.
    pub(super) fn run(&self) -> Vec<Change> {
        let mut walk = Walk {
            all: self,
            changes: Vec::new(),
            open: BTreeSet::new(),
            tags: self.tags(),
            told: self.told(),
        };
        let names: BTreeSet<&String> = self.old.keys().chain(self.new.keys()).collect();
        for name in names {
            walk.named(name);
        }
        walk.changes
    }

    fn tags(&self) -> BTreeMap<&'a str, &'a str> {
        let mut tags = BTreeMap::new();
        for defs in [self.old, self.new] {
            for schema in defs.values() {
                let members = opened(defs, schema);
                let bodies: Vec<&Value> = members.iter().map(|(_, body)| *body).collect();
                if let Some(tag) = tag(&bodies) {
                    tags.extend(members.iter().filter_map(|(name, _)| Some(((*name)?, tag))));
                }
            }
        }
        tags
    }

    fn told(&self) -> BTreeSet<&'a str> {
        let mut told = BTreeSet::new();
        for place in self.watched {
            let mut steps = place.splitn(2, '.');
            let (Some(name), field) = (steps.next(), steps.next()) else {
                continue;
            };
            for defs in [self.old, self.new] {
                let Some((own, schema)) = defs.get_key_value(name) else {
                    continue;
                };
                let Some(field) = field else {
                    told.insert(own.as_str());
                    continue;
                };
                let field = schema.get("properties").and_then(|fields| fields.get(field));
                told.extend(field.into_iter().flat_map(|field| arms(field).0).filter_map(reference));
            }
        }
        told
    }
}

impl<'a> Walk<'a, '_> {
    fn say(&mut self, meaning: Meaning, at: &str, what: impl Into<String>) {
        self.changes.push(Change {
            meaning,
            place: at.to_owned(),
            what: what.into(),
        });
    }

    fn named(&mut self, name: &'a str) {
        let all = self.all;
        let place = Place {
            at: name.to_owned(),
            read: all.before.read.contains(name) || all.after.read.contains(name),
            sent: all.before.sent.contains(name) || all.after.sent.contains(name),
            filled: all.selection.sends.get(name).map(Vec::as_slice),
        };
        match (all.old.get(name), all.new.get(name)) {
            (Some(before), Some(after)) => self.content(&place, before, after, self.tags.get(name).copied()),
            (None, Some(_)) => self.say(Meaning::Harmless, name, "is new"),
            (Some(_), None) => {
                let selection = all.selection;
                let roots = selection
                    .read
                    .roots
                    .iter()
                    .chain(&selection.sent.roots)
                    .chain(selection.sends.keys());
                let named = roots
                    .chain(&selection.opaque.types)
                    .chain(selection.members.keys())
                    .any(|root| root == name);
                let meaning = if named { Meaning::Breaks } else { Meaning::Harmless };
                self.say(meaning, name, "is gone");
            }
            (None, None) => {}
        }
    }

    /// The types at one place.
    fn value(&mut self, place: &Place<'a>, before: &'a Value, after: &'a Value) {
        let (old_arms, old_nulls) = arms(before);
        let (new_arms, new_nulls) = arms(after);
        if (old_nulls > 0) != (new_nulls > 0) {
            let (what, touched) = if new_nulls > 0 {
                ("may be null now", place.read)
            } else {
                ("may not be null any more", place.sent)
            };
            self.say(
                if touched { Meaning::Breaks } else { Meaning::Harmless },
                &place.at,
                what,
            );
        } else if (old_nulls > 1) != (new_nulls > 1) {
            let now = if new_nulls > 1 {
                "now has a meaning of its own for null"
            } else {
                "no longer tells null from absent"
            };
            self.say(
                if place.sent { Meaning::Breaks } else { Meaning::Harmless },
                &place.at,
                now,
            );
        }
        if let ([one], [other]) = (old_arms.as_slice(), new_arms.as_slice()) {
            // A type that has a name in both is compared by that name.
            if reference(one).is_some() && reference(one) == reference(other) {
                return;
            }
            let (one, other) = (resolve(self.all.old, one), resolve(self.all.new, other));
            self.content(place, one, other, None);
            return;
        }
        self.content(place, before, after, None);
    }

    /// Types with their references opened; `skip` is a member's tag.
    fn content(&mut self, place: &Place<'a>, before: &'a Value, after: &'a Value, skip: Option<&str>) {
        if before == after && place.at.contains('.') {
            return;
        }
        let pair = (std::ptr::from_ref(before) as usize, std::ptr::from_ref(after) as usize);
        if !self.open.insert(pair) {
            return;
        }
        let (old, new) = (opened(self.all.old, before), opened(self.all.new, after));
        if let (Some(words), Some(now)) = (enumeration(self.all.old, before), enumeration(self.all.new, after)) {
            self.words(place, &words, &now);
        } else if old.len() > 1 && new.len() > 1 && self.union(place, &old, &new) {
        } else if let ([(_, one)], [(_, other)]) = (old.as_slice(), new.as_slice()) {
            self.single(place, one, other, skip);
        } else {
            self.another(place, before, after);
        }
        self.open.remove(&pair);
    }

    fn another(&mut self, place: &Place<'a>, before: &Value, after: &Value) {
        let (was, is) = (short(before), short(after));
        // That more is said of what could be anything touches no reader.
        let meaning = if was == ANYTHING && !place.sent {
            Meaning::Harmless
        } else {
            place.touched()
        };
        if was != is {
            self.say(meaning, &place.at, format!("was {} and is {}", cut(&was), cut(&is)));
        }
    }

    fn words(&mut self, place: &Place<'a>, before: &[&str], after: &[&str]) {
        if self.all.watched.contains(&place.at) || self.told.contains(place.at.as_str()) {
            return;
        }
        for word in after.iter().filter(|word| !before.contains(word)) {
            self.say(Meaning::Harmless, &place.at, format!("has the new word `{word}`"));
        }
        for word in before.iter().filter(|word| !after.contains(word)) {
            let meaning = if place.sent { Meaning::Breaks } else { Meaning::Harmless };
            self.say(meaning, &place.at, format!("has lost the word `{word}`"));
        }
    }

    /// Unions of objects, member by member; false if no tag tells the members apart.
    fn union(
        &mut self,
        place: &Place<'a>,
        old: &[(Option<&'a str>, &'a Value)],
        new: &[(Option<&'a str>, &'a Value)],
    ) -> bool {
        let bodies =
            |members: &[(Option<&'a str>, &'a Value)]| members.iter().map(|(_, body)| *body).collect::<Vec<_>>();
        let (Some(tag), Some(now)) = (tag(&bodies(old)), tag(&bodies(new))) else {
            return false;
        };
        if tag != now {
            self.say(
                place.touched(),
                &place.at,
                format!("is told apart by `{now}` and no longer by `{tag}`"),
            );
            return true;
        }
        let (old, new) = (by_word(old, tag), by_word(new, tag));
        let told = self.all.watched.contains(&format!("{}.{tag}", place.at));
        let members = self.all.selection.members.get(&place.at);
        for (word, (own, body)) in &new {
            match old.get(word) {
                None if told => {}
                None => self.say(Meaning::Harmless, &place.at, format!("has the new member `{word}`")),
                Some((before, _)) if before.is_some() && before == own => {}
                Some((_, before)) => {
                    let inner = place.inside(&format!("({word})"));
                    self.single(&inner, before, body, Some(tag));
                }
            }
        }
        for word in old.keys().filter(|word| !new.contains_key(*word)) {
            let wanted = members.map_or(place.read || place.sent, |members| {
                members.iter().any(|member| member == word)
            });
            let meaning = if wanted { Meaning::Breaks } else { Meaning::Harmless };
            if !told || meaning == Meaning::Breaks {
                self.say(meaning, &place.at, format!("has lost the member `{word}`"));
            }
        }
        true
    }

    fn single(&mut self, place: &Place<'a>, before: &'a Value, after: &'a Value, skip: Option<&str>) {
        let kinds = (super::say::kind(before), super::say::kind(after));
        match kinds {
            ("object", "object") => self.fields(place, before, after, skip),
            ("list", "list") => self.part(place, "[]", before.get("items"), after.get("items")),
            ("map", "map") => {
                let values = |schema: &'a Value| schema.get("additionalProperties").filter(|values| values.is_object());
                self.part(place, "{}", values(before), values(after));
            }
            _ if before.get("type") == after.get("type") && before.get("enum") == after.get("enum") => {
                let (was, is) = (short(before), short(after));
                if was != is {
                    // Bounds are T3's to check: only what we send can be refused by them.
                    let meaning = if place.sent { Meaning::Breaks } else { Meaning::Harmless };
                    self.say(meaning, &place.at, format!("was {was} and is {is}"));
                }
            }
            _ => self.another(place, before, after),
        }
    }

    fn part(&mut self, place: &Place<'a>, step: &str, before: Option<&'a Value>, after: Option<&'a Value>) {
        static OPEN: Value = Value::Null;
        match (before, after) {
            (Some(before), Some(after)) => self.value(&place.inside(step), before, after),
            (None, None) => {}
            (before, after) => self.another(&place.inside(step), before.unwrap_or(&OPEN), after.unwrap_or(&OPEN)),
        }
    }

    fn fields(&mut self, place: &Place<'a>, before: &'a Value, after: &'a Value, skip: Option<&str>) {
        let (old, new) = (fields(before), fields(after));
        let names: BTreeSet<&str> = old
            .keys()
            .chain(new.keys())
            .copied()
            .filter(|name| Some(*name) != skip)
            .collect();
        for name in names {
            let mut here = place.inside(&format!(".{name}"));
            // What we do not fill is not sent.
            here.sent &= place
                .filled
                .is_none_or(|filled| filled.iter().any(|field| field == name));
            match (old.get(name), new.get(name)) {
                (Some((before, was)), Some((after, is))) => {
                    if *is && !*was {
                        let unfilled = place.sent
                            && place
                                .filled
                                .is_none_or(|filled| !filled.iter().any(|field| field == name));
                        let meaning = if unfilled { Meaning::Breaks } else { Meaning::Harmless };
                        self.say(meaning, &here.at, "is required now");
                    } else if *was && !*is {
                        let meaning = if here.read { Meaning::Breaks } else { Meaning::Harmless };
                        self.say(meaning, &here.at, "is no longer required");
                    }
                    // An optional field is read as absent where it is null.
                    if !*is && !*was && !here.sent {
                        here.optional(self, before, after);
                    } else {
                        self.value(&here, before, after);
                    }
                }
                (None, Some((_, true))) if place.sent => self.say(Meaning::Breaks, &here.at, "is new, and required"),
                (None, Some((_, required))) => {
                    let required = if *required { "required" } else { "optional" };
                    self.say(Meaning::Harmless, &here.at, format!("is new, and {required}"));
                }
                (Some((_, required)), None) => {
                    let needed = (here.read && *required) || here.sent;
                    let meaning = if needed { Meaning::Breaks } else { Meaning::Harmless };
                    self.say(meaning, &here.at, "is gone");
                }
                (None, None) => {}
            }
        }
    }
}

impl<'a> Place<'a> {
    fn optional(&self, walk: &mut Walk<'a, '_>, before: &'a Value, after: &'a Value) {
        let from = walk.changes.len();
        walk.value(self, before, after);
        for change in walk.changes.iter_mut().skip(from) {
            if change.place == self.at && change.what == "may be null now" {
                change.meaning = Meaning::Harmless;
            }
        }
    }
}

type Members<'a> = BTreeMap<&'a str, (Option<&'a str>, &'a Value)>;

/// The members by each of their words; those for any word are a decoder's and do not travel.
fn by_word<'a>(members: &[(Option<&'a str>, &'a Value)], tag: &str) -> Members<'a> {
    let mut found: Members<'a> = BTreeMap::new();
    for (name, body) in members {
        for word in super::forms::words(body, tag) {
            // Of two members with one word the named one travels.
            let entry = found.entry(word).or_insert((*name, *body));
            if entry.0.is_none() && name.is_some() {
                *entry = (*name, *body);
            }
        }
    }
    found
}

const LONGEST: usize = 120;

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
