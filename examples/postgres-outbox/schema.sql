CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer text NOT NULL
);

-- Calls to be sent: written in the transaction that they belong to, deleted when they are in their queue.
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id bigint NOT NULL
);

-- What the calls do.
CREATE TABLE mails (
    order_id bigint NOT NULL
);

-- Wakes the relay, when the transaction is committed.
CREATE FUNCTION notify_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NOTIFY outbox;
    RETURN NULL;
END
$$;
CREATE TRIGGER outbox AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION notify_outbox();
