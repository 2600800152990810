struct Point {
    x: i64,
    y: i64,
}

#[delayed::task]
fn pair((a, b): (i64, i64), _: String, [c, d]: [i64; 2], ref e: i64, f @ _: i64) {
    let _ = (a, b, c, d, e, f);
}

#[delayed::task]
fn point(Point { x, y }: Point) {
    let _ = (x, y);
}

fn main() {
    let _ = pair;
    point(Point { x: 1, y: 2 });
}
