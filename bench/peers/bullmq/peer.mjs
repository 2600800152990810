// BullMQ: one process with many calls at a time; nothing is kept of those that have ended.
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRequire } from 'node:module';

import { Queue, Worker } from 'bullmq';

const CHUNK = 1000;
const TICK_NS = 1_000_000n;
const WRITE_EVERY_MS = 2;

const now = () => process.hrtime.bigint();
const queueNames = (process.env.BENCH_QUEUES ?? 'bench').split(',');

// What a run writes. Node maps no files: what changed is written every two milliseconds, in one piece for the times
// and one for the counts.
class Tally {
  constructor() {
    this.file = openSync(process.env.BENCH_TALLY, 'r+');
    this.calls = fstatSync(this.file).size / 17;
    this.times = new BigUint64Array(this.calls);
    this.runs = new Uint8Array(this.calls);
    this.clear();
  }

  clear() {
    this.low = this.calls;
    this.high = -1;
    this.marked = false;
  }

  count(number) {
    this.runs[number] += 1;
    this.low = Math.min(this.low, number);
    this.high = Math.max(this.high, number);
    this.timer ??= setTimeout(() => this.write(), WRITE_EVERY_MS);
  }

  mark(number) {
    this.times[number] = now();
    this.marked = true;
    this.count(number);
  }

  write() {
    this.timer = undefined;
    const { low, high, calls } = this;
    if (high < low) return;
    if (this.marked) {
      const times = new Uint8Array(this.times.buffer, 8 * low, 8 * (high - low + 1));
      writeSync(this.file, times, 0, times.length, 8 * (calls + low));
    }
    writeSync(this.file, this.runs, low, high - low + 1, 16 * calls + low);
    this.clear();
  }

  sent(first, last, at) {
    const times = new BigUint64Array(last - first).fill(at);
    writeSync(this.file, new Uint8Array(times.buffer), 0, 8 * times.length, 8 * first);
  }

  close() {
    this.write();
    closeSync(this.file);
  }
}

function connection(url) {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}

async function work(url, concurrency) {
  const tally = new Tally();
  const run = async ({ name, data }) => {
    if (name === 'mark') return tally.mark(data.number);
    if (name === 'mixed') await sleep(data.number % 10 === 0 ? 100 : 1);
    tally.count(data.number);
  };
  const workers = queueNames.map(
    (name) =>
      new Worker(name, run, {
        connection: { ...connection(url), maxRetriesPerRequest: null },
        concurrency: Math.ceil(concurrency / queueNames.length),
        removeOnComplete: { count: 0 },
        removeOnFail: { count: 0 },
      }),
  );
  process.on('SIGTERM', async () => {
    await Promise.all(workers.map((worker) => worker.close()));
    tally.close();
    process.exit(0);
  });
}

// Sends what the lines of the standard input ask for, until it ends.
async function send(url) {
  const queues = queueNames.map((name) => new Queue(name, { connection: connection(url) }));
  await Promise.all(queues.map((queue) => queue.waitUntilReady()));
  const tally = new Tally();
  const job = (name, number, bytes) => ({ name, data: bytes ? { number, data: 'x'.repeat(bytes) } : { number } });

  async function bulk(task, first, last, bytes) {
    for (let at = first; at < last; at += CHUNK) {
      const end = Math.min(at + CHUNK, last);
      const shares = queues.map(() => []);
      for (let number = at; number < end; number += 1) shares[number % queues.length].push(job(task, number, bytes));
      await Promise.all(queues.map((queue, which) => shares[which].length && queue.addBulk(shares[which])));
    }
  }

  async function one(task, number) {
    const { name, data } = job(task, number, 0);
    await queues[number % queues.length].add(name, data);
  }

  async function each(task, first, last, tasks) {
    const run = async (at) => {
      for (let number = first + at; number < last; number += tasks) await one(task, number);
    };
    await Promise.all(Array.from({ length: tasks }, (_, at) => run(at)));
  }

  // A call counts as sent when its turn had come, if that was missed.
  async function paced(task, first, count, rate) {
    const began = now();
    let done = 0;
    for (let turn = 1n; done < count; turn += 1n) {
      const due = began + turn * TICK_NS;
      if (now() < due) await sleep(Number(due - now()) / 1e6);
      const end = Math.min(count, Math.floor((Number(turn) * rate) / 1000));
      if (end > done) {
        const sent = now();
        tally.sent(first + done, first + end, sent > due + 2n * TICK_NS ? due : sent);
        await bulk(task, first + done, first + end, 0);
        done = end;
      }
    }
  }

  for await (const line of createInterface({ input: process.stdin })) {
    const [how, task, ...words] = line.split(' ');
    const [first, count, amount] = words.map(Number);
    const began = now();
    if (how === 'each') await each(task, first, first + count, amount);
    else if (how === 'paced') await paced(task, first, count, amount);
    else if (count === 1 && amount === 0) await one(task, first);
    else await bulk(task, first, first + count, amount);
    console.log(`${began} ${now()}`);
  }
  process.exit(0);
}

function version() {
  const read = (name) => createRequire(import.meta.url)(`${name}/package.json`).version;
  console.log(`BullMQ ${read('bullmq')}, ioredis ${read('ioredis')}, Node ${process.version}`);
}

const [command, url, , concurrency] = process.argv.slice(2);
if (command === 'worker') await work(url, Number(concurrency));
else if (command === 'send') await send(url);
else version();
