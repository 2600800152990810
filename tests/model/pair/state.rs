//! What stands in Redis, put there from the model and read back.

use super::*;

impl Pair {
    /// Lets both sides be as `world`.
    pub(crate) fn set(&mut self, world: World) {
        let now = UNIX_EPOCH.elapsed().expect("a clock that goes forward").as_millis();
        let mut pipe = redis::pipe();
        pipe.cmd("FLUSHALL").ignore();
        world.waiting.iter().for_each(|message| {
            pipe.rpush(QUEUE, text(*message));
        });
        (0..world.tokens).for_each(|_| {
            pipe.rpush(TOKENS, "1");
        });
        (0..world.hand).for_each(|_| {
            pipe.rpush(HAND, "1");
        });
        world.processing.iter().for_each(|(wire, message)| {
            pipe.hset(PROCESSING, wire_id(*wire), text(*message));
        });
        for wire in (0..).zip(&world.live).filter(|(_, live)| **live).map(|(wire, _)| wire) {
            pipe.pset_ex(wire_id(wire), "1", LEASE);
        }
        for (message, Deaths { processes, waiting, owned }) in &world.deaths {
            let words = |words: Vec<String>, between: &str| words.join(between);
            let names = words(processes.iter().map(|worker| worker_key(*worker)).collect(), " ");
            let waiting = words(waiting.iter().map(u8::to_string).collect(), ",");
            let owned = owned.iter().map(|(wire, died, runs)| {
                let how = if *runs { '!' } else { '=' };
                format!(";{}:{}{how}{died}", worker_id(wire / SLOTS), wire % SLOTS)
            });
            let calls = [waiting, owned.collect()].concat();
            let calls = if calls.is_empty() { calls } else { format!("={calls} ") };
            pipe.hset(DEATHS, digest(&text(*message)), format!("{} {now} {calls}{names}", processes.len()));
        }
        let () = pipe.query(&mut self.bench.redis).unwrap();
        let owned = world.processing.iter().map(|(_, message)| message);
        self.fresh = owned.chain(&world.waiting).chain(world.deaths.keys()).copied().max().unwrap_or(0);
        self.world = world;
    }

    /// What stands in Redis.
    pub(super) fn read(&mut self) -> World {
        for message in Message::try_from(self.digests.len()).unwrap()..=self.fresh {
            self.digests.insert(digest(&text(message)), message);
        }
        let state = self.bench.state();
        let alive: Vec<String> = self.bench.redis.zrange(WORKERS, 0, -1).unwrap();
        let seen = state.deaths.into_iter().map(|(hash, deaths)| {
            let mut words = deaths.split_whitespace().peekable();
            let (count, _time) = (words.next(), words.next());
            let calls = words.next_if(|word| word.starts_with('=')).map_or("", |word| &word[1..]);
            let processes: Vec<u8> = words.map(|name| name.as_bytes()[QUEUE.len() + 1] - b'a').collect();
            assert_eq!(
                count,
                Some(&*processes.len().to_string()),
                "expected as many names as deaths: {deaths}"
            );
            let mut marks = calls.split(';');
            let waiting = marks.next().into_iter().flat_map(|waiting| waiting.split(','));
            let waiting = waiting.filter(|died| !died.is_empty()).map(|died| died.parse().unwrap()).collect();
            let owned = marks.map(|mark| {
                let (slot, died) = mark.split_once(['=', '!']).unwrap();
                let slot_number: Wire = slot.split_once(':').unwrap().1.parse().unwrap();
                let wire = (slot.as_bytes()[0] - b'a') * SLOTS + slot_number;
                (wire, died.parse().unwrap(), mark.contains('!'))
            });
            (self.digests[&hash], Deaths { processes, waiting, owned: owned.collect() })
        });
        let deaths = seen.collect();
        let fields: Vec<(String, Vec<u8>)> = self.bench.redis.hgetall(PROCESSING).unwrap();
        let wire_ids: Vec<String> = (0..WORKER_COUNT * SLOTS).map(wire_id).collect();
        let wire = |id: &String| wire_ids.iter().position(|other| other == id).expect("one of the wire ids");
        World {
            waiting: state.waiting.into_iter().map(number).collect(),
            tokens: usize::try_from(state.tokens).unwrap(),
            hand: self.bench.redis.llen(HAND).unwrap(),
            processing: fields.iter().map(|(id, m)| (Wire::try_from(wire(id)).unwrap(), number(m))).collect(),
            live: wire_ids.iter().map(|id| state.keys.contains(id)).collect(),
            dead: state.dead.iter().map(|letter| number(&letter["message"])).collect(),
            deaths,
            alike: false,
            numbers: (0..WORKER_COUNT).map(|worker| self.numbers(worker)).collect(),
            leases: (0..WORKER_COUNT).map(|worker| alive.contains(&worker_id(worker))).collect(),
            without: None,
        }
    }

    fn numbers(&mut self, worker: u8) -> Option<Numbers> {
        let fields = ["seq", "fence", "applied"];
        let (seq, fence, applied): (Option<Seq>, Option<Seq>, Option<i64>) =
            self.bench.redis.hmget(worker_key(worker), &fields).unwrap();
        let fence = fence.map(|fence| (fence, applied.and_then(|applied| Seq::try_from(applied).ok())));
        seq.map(|seq| Numbers { seq, fence })
    }
}
