// An HTTP server that enqueues a task of asynq for each request, with its client's defaults.
package main

import (
	"encoding/json"
	"net/http"
	"os"

	"bench-peers/peer"

	"github.com/hibiken/asynq"
)

type call struct {
	Task string            `json:"task"`
	Args []json.RawMessage `json:"args"`
}

func main() {
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: os.Args[1]})
	http.HandleFunc("/v1/calls", func(writer http.ResponseWriter, request *http.Request) {
		var wanted call
		if err := json.NewDecoder(request.Body).Decode(&wanted); err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		payload, err := json.Marshal(wanted.Args)
		peer.Must(err)
		info, err := client.Enqueue(asynq.NewTask(wanted.Task, payload))
		if err != nil {
			http.Error(writer, err.Error(), http.StatusServiceUnavailable)
			return
		}
		writer.Header().Set("content-type", "application/json")
		writer.WriteHeader(http.StatusAccepted)
		peer.Must(json.NewEncoder(writer).Encode(map[string]string{"id": info.ID}))
	})
	peer.Must(http.ListenAndServe(os.Args[2], nil))
}
